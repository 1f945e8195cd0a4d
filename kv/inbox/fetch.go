package inbox

import (
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/jobs"
	"kist/kv/people"
	"kist/kv/record"
)

// FinishFetch creates the file of a remote upload whose content is complete, like FinishUpload. Bytes that were not
// reserved are charged like new ones. It fails as jobs.NoteFetch and catalog.Add do.
func FinishFetch(tx *kv.Tx, f *jobs.Fetch, form *record.Form, content *record.Content) error {
	if tx.DiskFull() {
		return kv.ErrFull
	}
	before, err := jobs.RunningOfEnabled(tx, f)
	if err != nil {
		return err
	}
	if more := content.Size - before.Reserved(); more > 0 {
		if err := people.Charge(tx, f.Owner, more); err != nil {
			return err
		}
	}
	if _, err := jobs.FetchRows.Delete(tx.Tx, jobs.FetchRows.Key(before)); err != nil { // frees the reservation
		return err
	}
	r, err := catalog.Add(tx, catalog.Draft{
		Owner: f.Owner, Kind: record.Files, Form: form, Content: content, Password: before.Password, Begun: true,
	})
	if err != nil {
		return err
	}
	f.Done(r.ID, content.Size, tx.Now)
	return jobs.EndFetch(tx, f)
}
