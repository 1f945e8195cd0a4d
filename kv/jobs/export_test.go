package jobs

// The declarations below give external tests access to internals.

const (
	FetchTime      = fetchTime
	KeptFetches    = keptFetches
	LogWaiting     = logWaiting
	MaxQueuedBytes = maxQueuedBytes
)

var (
	DropDelivery = dropDelivery
	DropWebhook  = dropWebhook
	Oldest       = oldest
)
