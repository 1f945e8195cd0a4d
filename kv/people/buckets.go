package people

import (
	"kist/kv/table"
)

// The buckets. Their numbers and names never change; kv/DESIGN.md says what each holds.
var (
	UserBucket   = table.Bucket{No: 2, Name: "user"}
	userName     = table.Bucket{No: 3, Name: "user.name"}
	keyBucket    = table.Bucket{No: 4, Name: "key"}
	keyDigest    = table.Bucket{No: 5, Name: "key.digest"}
	deviceBucket = table.Bucket{No: 23, Name: "device"}
	deviceCode   = table.Bucket{No: 24, Name: "device.code"}

	activityBucket = table.Bucket{No: 52, Name: "activity"}
	HistoryIndex   = table.Bucket{No: 53, Name: "history.index"}

	loginBucket     = table.Bucket{No: 62, Name: "login"}
	passkeyBucket   = table.Bucket{No: 63, Name: "passkey"}
	identityBucket  = table.Bucket{No: 65, Name: "identity"}
	identitySubject = table.Bucket{No: 66, Name: "identity.subject"}
)
