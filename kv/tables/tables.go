// Package tables lists all tables of the program. A repair fills them in this order; the
// rows of a removed account are deleted in the reverse order: people.RemoveUser calls the
// Drop of each table, which says which rows go with the account.
package tables

import (
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/history"
	"kist/kv/inbox"
	"kist/kv/jobs"
	"kist/kv/people"
	"kist/kv/transfer"
	"kist/kv/workcopy"
)

// All is the schema of this program's store.
var All = &kv.Schema{
	Tables: []kv.Table{
		kv.MetaTable, people.TryTable,
		people.UserTable, people.KeyTable, people.DeviceTable, people.ActivityTable,
		people.LoginTable, people.PasskeyTable, people.IdentityTable,
		catalog.TagTable, catalog.FolderTable,
		jobs.FetchTable, transfer.ImportTable,
		catalog.SpentTable, catalog.RecordTable, catalog.PageTable, catalog.TrashTable, catalog.PickTable, catalog.MembershipTable, catalog.CRCTable,
		inbox.RequestTable, inbox.ItemTable, inbox.SenderTable, inbox.UploadTable,
		catalog.UnreferencedTable,             // after all tables with contents
		catalog.ViewTable,                     // after records, the trash and requests, which determine the counters
		history.VisitTable,                    // after records, so that an owner's visits are dropped before them
		history.VersionTable,                  // likewise
		jobs.WebhookTable, jobs.DeliveryTable, // deleted first with an owner: a removed account has no events
		jobs.AnswerTable, // after all tables for which a repair makes accounts
	},
	Migrations: [workcopy.Format][]kv.Migration{
		1: {catalog.FillPages},
		2: {}, // activity and visits, which begin empty
		3: {}, // trash, versions, collections and second steps, which begin empty
		4: {}, // earlier bytes of files, which begin empty
		5: {catalog.RekeyPages},
		6: {}, // members of collections, which begin empty
		7: {catalog.FileTaken, catalog.FileShows},
	},
}
