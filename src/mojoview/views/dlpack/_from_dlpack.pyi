from typing import final

from mojoview.memory._lease import Lease
from mojoview.views._view import View

@final
class TensorLease(Lease): ...

def from_dlpack(obj: object, writable: bool) -> View: ...
