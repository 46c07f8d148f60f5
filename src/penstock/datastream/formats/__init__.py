"""File formats, at the module paths of PyFlink."""
