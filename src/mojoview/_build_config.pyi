VERSION: str
CONFIG: dict[str, object]
