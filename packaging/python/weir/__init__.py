"""weir transforms ONNX models that are larger than memory.

Every command of the program ``weir`` is a function here, and every option a keyword argument: ``--block-size 64`` is
``block_size=64``. A function runs the program, waits for it, and returns its report.

>>> import weir
>>> [found] = weir.passes("conv2matmul").passes
>>> found.name, found.exactness
('conv2matmul', 'rounding')

What goes wrong is raised, with what can be done about it:

>>> try:
...     weir.inspect("nothere.onnx")
... except weir.InputError as error:
...     print(error.code, error.message)
66 'nothere.onnx' does not exist

The functions take ``progress=``, a callable that is given :class:`weir.Progress` while the work goes on. An interrupt
(or an exception in that callable) ends the program cleanly; the same call continues what it began.
"""

from . import _commands, _errors, documents
from ._commands import *
from ._errors import *
from ._find import find_weir_bin
from ._run import pass_spec
from ._samples import DataReader, Samples, StrPath
from ._version import __version__

__all__ = ["DataReader", "Samples", "StrPath", "__version__", "documents", "find_weir_bin", "pass_spec"]
__all__ += _commands.__all__
__all__ += _errors.__all__
