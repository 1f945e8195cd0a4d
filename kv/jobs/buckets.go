package jobs

import (
	"kist/kv/table"
)

// The buckets. Their numbers and names never change; kv/DESIGN.md says what each holds.
var (
	hookBucket     = table.Bucket{No: 19, Name: "webhook"}
	deliveryBucket = table.Bucket{No: 20, Name: "delivery"}
	answerBucket   = table.Bucket{No: 21, Name: "answer"}
	noticeBucket   = table.Bucket{No: 26, Name: "notice", Append: true}
	deliveryLine   = table.Bucket{No: 27, Name: "delivery.line"}
	deliveryDue    = table.Bucket{No: 28, Name: "delivery.due"}
	deliveryLog    = table.Bucket{No: 29, Name: "delivery.log"}
	deliverySum    = table.Bucket{No: 30, Name: "delivery.sum"}
	UploadSlug     = table.Bucket{No: 41, Name: "upload.slug"}
	fetchBucket    = table.Bucket{No: 46, Name: "fetch"}
	fetchLine      = table.Bucket{No: 47, Name: "fetch.line"}
)
