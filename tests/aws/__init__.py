"""A simulator of the parts of Amazon that pgdyno uses, checked against botocore's descriptions of the services."""
