package serve

import (
	"log/slog"
	"time"

	"kist/admin/exit"
	"kist/blobs"
	"kist/blobs/s3"
	"kist/kv/ship"
)

// AccessFlags say how to reach an object store.
type AccessFlags struct {
	StoreEndpoint []string `placeholder:"URL" help:"Where the object store is, such as https://s3.example.org; AWS if absent. Several addresses of the same store, separated by commas, are used in turns when one fails."`
	StoreRegion   string   `default:"us-east-1" placeholder:"REGION" help:"The region of the object store."`
	StoreKeyID    string   `name:"store-key-id" placeholder:"ID" help:"The id of the key for the object store. If absent, the usual AWS_ variables and files say it."`
	StoreSecret   string   `placeholder:"SECRET" help:"The secret of that key. Put it into a file that KIST_STORE_SECRET_FILE names instead: other users can see the command line."`
}

// Open returns the bucket that an address such as s3://bucket/prefix names.
func (f *AccessFlags) Open(address string) (*s3.Bucket, error) {
	b, err := s3.Open(s3.Options{URL: address, Endpoints: f.StoreEndpoint, Region: f.StoreRegion, KeyID: f.StoreKeyID, Secret: f.StoreSecret})
	if err != nil {
		return nil, exit.Misused("%v", err)
	}
	return b, nil
}

// StoreFlags choose an object store that everything is copied to.
type StoreFlags struct {
	Store string `placeholder:"ADDRESS" help:"An object store that everything is copied to, such as s3://bucket/prefix."`
	AccessFlags
	StoreMode   string        `default:"async" enum:"async,sync" placeholder:"MODE" help:"When a change is acknowledged: async, when it is on the local disk (about a second before it is in the object store), or sync, when it is in the object store, too."`
	StoreMaxLag time.Duration `default:"0" placeholder:"TIME" help:"Store nothing new when the object store was not written to for this time, such as 10s. 0 means that this does not matter."`
}

// Open returns what copies everything there, nil without --store, and a function that
// releases it when the store is closed.
func (f *StoreFlags) Open(base string, log *slog.Logger) (s *ship.Shipper, release func(), err error) {
	if f.Store == "" {
		if f.StoreMode != "async" || f.StoreMaxLag != 0 || len(f.StoreEndpoint) > 0 {
			return nil, nil, exit.Misused("--store-endpoint, --store-mode and --store-max-lag need --store")
		}
		return nil, func() {}, nil
	}
	if f.StoreMaxLag < 0 || f.StoreMaxLag > 0 && f.StoreMaxLag < 3*time.Second {
		return nil, nil, exit.Misused("--store-max-lag must be at least 3s, or 0")
	}
	b, err := f.AccessFlags.Open(f.Store)
	if err != nil {
		return nil, nil, err
	}
	o := ship.Options{Remote: b, Address: f.Store, Sync: f.StoreMode == "sync", MaxLag: f.StoreMaxLag, URL: base, Log: log}
	for _, one := range b.Endpoints() {
		o.Endpoints = append(o.Endpoints, blobs.Remote(one))
	}
	return ship.New(o), b.Close, nil
}
