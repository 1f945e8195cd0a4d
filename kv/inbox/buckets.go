package inbox

import (
	"kist/kv/table"
)

// The buckets. Their numbers and names never change; kv/DESIGN.md says what each holds.
var (
	itemBucket   = table.Bucket{No: 32, Name: "item"}
	itemState    = table.Bucket{No: 33, Name: "item.state"}
	itemBlob     = table.Bucket{No: 34, Name: "item.blob"}
	senderBucket = table.Bucket{No: 35, Name: "sender"}
	uploadBucket = table.Bucket{No: 40, Name: "upload"}
	uploadSecret = table.Bucket{No: 42, Name: "upload.secret"}
)
