package kv

// tables are all tables. The order matters: see Schema.
var tables = Schema{
	metaTable, tryTable,
	userTable, keyTable, deviceTable,
	tagTable, folderTable,
	fetchTable, importTable,
	unreferencedTable, spentTable,
	recordTable, pageTable,
	requestTable, itemTable, senderTable, uploadTable,
	viewTable,
	hookTable, deliveryTable,
	answerTable,
}

// NewHolders follows a journal from its beginning.
func NewHolders() *Holders { return tables.holders() }
