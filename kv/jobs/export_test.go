package jobs

// What follows lets the tests outside of the package reach into it.

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
