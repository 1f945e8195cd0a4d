package inbox

import (
	"kist/kv"
)

// What follows lets the tests outside of the package reach into it.

func PromisedRequests(s *kv.Store) int { return len(promises.Of(s).requests) }

func PromisedOwners(s *kv.Store) int { return len(promises.Of(s).owners) }

const (
	EmptyTime  = emptyTime
	MaxSentAt  = maxSentAt
	MaxSentBy  = maxSentBy
	MaxUploads = maxUploads
)

type Sender = sender

var (
	CountReceived = countReceived
	SenderOf      = senderOf
)
