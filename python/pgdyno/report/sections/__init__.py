"""What each section of the report says: values that a template sets, no markup but drawings."""
