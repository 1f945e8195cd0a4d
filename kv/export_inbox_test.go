package kv

// What follows lets the tests outside of the package reach into it.

func PromisedRequests(s *Store) int { return len(promises.Of(s).requests) }
func PromisedOwners(s *Store) int   { return len(promises.Of(s).owners) }
