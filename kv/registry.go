package kv

// tables are all tables. The order matters: see Schema.
var tables = Schema{
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
}

// migrations are the steps from one format to the next.
var migrations = [Format]migration{1: fillPages}

// NewHolders follows a journal from its beginning.
func NewHolders() *Holders { return tables.holders() }
