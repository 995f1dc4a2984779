"""The exception of this package."""


class Error(RuntimeError):
    """cause, message, remedy, exit_code: what happened and where, and what to do about it."""

    def __init__(self, cause, message, remedy="", exit_code=1):
        super().__init__(cause, message, remedy, exit_code)
        self.cause, self.message, self.remedy, self.exit_code = cause, message, remedy, exit_code

    def __str__(self):
        return f"{self.cause}: {self.message}" + (f"; try: {self.remedy}" if self.remedy else "")
