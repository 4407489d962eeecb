"""One execution of a plan: the only room that knows all the steps.

`begin` and `resume` make a `RunState` and the list of trials to do; `course` goes through them and ends
the run in good order whatever happens; `trial` does one of them with the servers of `servers`.
"""

from pgdyno.experiment.begin import run_experiment
from pgdyno.experiment.course import Finished
from pgdyno.experiment.ground import scripts_of
from pgdyno.experiment.resume import resume_experiment

__all__ = ["Finished", "resume_experiment", "run_experiment", "scripts_of"]
