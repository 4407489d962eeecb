"""Errors that the simulator returns itself, without moto."""


class RefusedError(Exception):
    """The simulator refuses a request as Amazon does."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code, self.message, self.status = code, message, status
