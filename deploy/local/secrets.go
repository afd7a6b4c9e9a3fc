package local

// Bearer is the bearer token of a caller: executor, resolver, operator, operator2, intake, reconciler or reader.
func (s *Stack) Bearer(name string) string { return s.secrets.Bearer(name) }

// TokenFile is the path of the file that holds a caller's bearer token.
func (s *Stack) TokenFile(name string) string { return s.secrets.TokenFile(name) }
