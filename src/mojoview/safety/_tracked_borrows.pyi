from mojoview.memory._lease import Lease
from mojoview.views._view import View

def borrow(views: tuple[View, ...]) -> Lease: ...
