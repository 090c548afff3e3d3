package doctest

// root is the root of the repository, seen from here.
const root = "../../"
