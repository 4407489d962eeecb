"""What a run answers, as values and as text: peaks, rates, phases, comparisons, refusals, limits."""
