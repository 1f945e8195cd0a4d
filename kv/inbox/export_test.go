package inbox

import (
	"kist/kv"
)

// The declarations below give external tests access to internals.

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
