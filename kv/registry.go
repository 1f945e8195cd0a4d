package kv

// All is what a store of this program holds.
var All = &Schema{
	Tables: []Table{
		metaTable, tryTable,
		userTable, keyTable, deviceTable,
		tagTable, folderTable,
		fetchTable, importTable,
		unreferencedTable, spentTable, // before records and items, whose contents are referenced again
		recordTable, pageTable,
		requestTable, itemTable, senderTable, uploadTable,
		viewTable,                // after records and requests, which say how many counters there are
		hookTable, deliveryTable, // an owner's go first: nothing is told of a removed account
		answerTable, // after all that a repair makes accounts for
	},
	Migrations: [Format]Migration{1: fillPages},
}
