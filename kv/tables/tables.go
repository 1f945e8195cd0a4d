// Package tables lists all tables of this program. The order matters: see kv.Schema.
package tables

import (
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/inbox"
	"kist/kv/jobs"
	"kist/kv/people"
	"kist/kv/workcopy"
)

// All is what a store of this program holds.
var All = &kv.Schema{
	Tables: []kv.Table{
		kv.MetaTable, people.TryTable,
		people.UserTable, people.KeyTable, people.DeviceTable,
		catalog.TagTable, catalog.FolderTable,
		jobs.FetchTable, jobs.ImportTable,
		catalog.UnreferencedTable, catalog.SpentTable, // before records and items, whose contents are referenced again
		catalog.RecordTable, catalog.PageTable,
		inbox.RequestTable, inbox.ItemTable, inbox.SenderTable, inbox.UploadTable,
		catalog.ViewTable,                     // after records and requests, which say how many counters there are
		jobs.WebhookTable, jobs.DeliveryTable, // an owner's go first: nothing is told of a removed account
		jobs.AnswerTable, // after all that a repair makes accounts for
	},
	Migrations: [workcopy.Format]kv.Migration{1: catalog.FillPages},
}
