"""The content of each section of the report: values that a template sets, without markup except drawings."""
