package catalog

import (
	"kist/kv/table"
)

// The buckets. Their numbers and names never change; kv/DESIGN.md says what each holds.
var (
	recordFacet        = table.Bucket{No: 8, Name: "record.label"}
	recordOrder        = table.Bucket{No: 9, Name: "record.order"}
	ViewBucket         = table.Bucket{No: 11, Name: "view"}
	tagBucket          = table.Bucket{No: 13, Name: "tag"}
	tagName            = table.Bucket{No: 14, Name: "tag.name"}
	folderBucket       = table.Bucket{No: 15, Name: "folder"}
	folderName         = table.Bucket{No: 16, Name: "folder.name"}
	blobBucket         = table.Bucket{No: 17, Name: "blob"}
	UnreferencedBucket = table.Bucket{No: 18, Name: "blob.loose"}
	recordEnd          = table.Bucket{No: 22, Name: "record.end"}
	spentBucket        = table.Bucket{No: 25, Name: "spent"}
	pageBucket         = table.Bucket{No: 50, Name: "page"}
	pageDue            = table.Bucket{No: 51, Name: "page.due"}
	pickBucket         = table.Bucket{No: 60, Name: "member"}
	pickOrder          = table.Bucket{No: 61, Name: "member.order"}
	membershipBucket   = table.Bucket{No: 72, Name: "membership"}
	membershipUser     = table.Bucket{No: 73, Name: "membership.user"}
	crcBucket          = table.Bucket{No: 70, Name: "crc"}
	trashLine          = table.Bucket{No: 57, Name: "trash.line"}
	trashBlob          = table.Bucket{No: 59, Name: "trash.blob"}
	trashVersion       = table.Bucket{No: 71, Name: "trash.version"}
)
