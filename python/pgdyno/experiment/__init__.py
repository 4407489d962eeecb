"""One execution of a plan: the only package that combines all steps.

`begin` and `resume` obtain the `Resources` of a run, and create its immutable `RunContext` and its `RunProgress`. A
`TrialSequence` creates the other owners of state (`Servers`, `Generators`) and runs the trials through a `TrialRunner`.
"""

from pgdyno.experiment.begin import run_experiment
from pgdyno.experiment.resume import resume_experiment
from pgdyno.experiment.trials.trial_sequence import Finished

__all__ = ["Finished", "resume_experiment", "run_experiment"]
