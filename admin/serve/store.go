package serve

import (
	"cmp"
	"log/slog"
	"os"
	"strings"
	"time"

	"kist/admin/exit"
	"kist/blobs"
	"kist/blobs/s3"
	"kist/kv/ship"
)

// AccessFlags say how to reach an object store.
type AccessFlags struct {
	StoreEndpoint []string `placeholder:"URL" help:"URL of the object store, such as https://s3.example.org; AWS if absent. If the store has several, separate them with commas: when one fails, the next is used."`
	StoreRegion   string   `default:"us-east-1" placeholder:"REGION" help:"The region of the object store."`
	StoreKeyID    string   `name:"store-key-id" placeholder:"ID" help:"The id of the key for the object store. If absent, it comes from the usual AWS_ variables and files."`
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

// RemoteFlags name the object store of a data directory.
type RemoteFlags struct {
	Store string `placeholder:"ADDRESS" help:"The object store that the server copies everything to, such as s3://bucket/prefix. Files may be only there."`
	AccessFlags
}

// Remote returns the object store, nil without --store, and a function that releases
// it.
func (f *RemoteFlags) Remote() (remote blobs.Remote, release func(), err error) {
	if f.Store == "" {
		return nil, func() {}, nil
	}
	b, err := f.AccessFlags.Open(f.Store)
	if err != nil {
		return nil, nil, err
	}
	return b, b.Close, nil
}

// StoreFlags choose an object store that everything is copied to.
type StoreFlags struct {
	Store string `placeholder:"ADDRESS" help:"An object store that everything is copied to, such as s3://bucket/prefix."`
	AccessFlags
	StoreMode   string        `default:"async" enum:"async,sync" placeholder:"MODE" help:"When a change is acknowledged: async, when it is on the local disk (about a second before it is in the object store), or sync, when it is in the object store, too."`
	TakeOver    bool          `help:"Become the one server that writes to the object store, though another data directory wrote there last. That server stops storing when it notices. Needed once after kist restore from an object store."`
	StoreMaxLag time.Duration `default:"0" placeholder:"TIME" help:"Refuse changes when the last write to the object store is longer ago than this, such as 10s. 0 means no limit."`

	Follow       string        `placeholder:"ADDRESS" help:"Be a standby: follow the server that copies everything to this object store, such as s3://bucket/prefix. After kist promote the server continues with --store and this address."`
	FetchAll     bool          `help:"As a standby, also fetch all files while it follows. Otherwise it has only small ones, and fetches the others when they are needed after kist promote."`
	PromoteAfter time.Duration `default:"0" placeholder:"TIME" help:"As a standby, take over when the server that is followed was silent for this time, such as 30s. That server's --store-max-lag must be shorter. 0 means never."`
}

// minLag is the shortest --store-max-lag. A third of it must be enough for a put.
const minLag = 2 * time.Second

// defaultHistory is --store-history where it is not given, which the command line declares.
const defaultHistory = 30 * 24 * time.Hour

// Open returns the object store that everything is copied to or that is followed, and a
// function that releases it when the store is closed. Without either, o.Remote is nil.
func (f *StoreFlags) Open(base string, evicts bool, history time.Duration, log *slog.Logger) (o ship.Options, release func(), err error) {
	address := cmp.Or(f.Store, f.Follow)
	switch {
	case f.Store != "" && f.Follow != "":
		return o, nil, exit.Misused("--store and --follow do not go together")
	case address == "" && f.given(evicts, history) != "":
		return o, nil, exit.Misused("there is neither --store nor --follow, so leave out %s, or add one of the two", f.given(evicts, history))
	case f.Follow == "" && (f.PromoteAfter != 0 || f.FetchAll):
		return o, nil, exit.Misused("--promote-after and --fetch-all need --follow")
	case f.StoreMaxLag < 0 || f.StoreMaxLag > 0 && f.StoreMaxLag < minLag:
		return o, nil, exit.Misused("--store-max-lag must be at least %s, or 0", minLag)
	case f.PromoteAfter < 0 || f.PromoteAfter > 0 && f.PromoteAfter <= minLag:
		return o, nil, exit.Misused("--promote-after must be more than %s, or 0", minLag)
	case history > 0 && history < time.Hour:
		return o, nil, exit.Misused("--store-history must be at least 1h, or 0")
	case address == "":
		return o, func() {}, nil
	}
	b, err := f.AccessFlags.Open(address)
	if err != nil {
		return o, nil, err
	}
	return Shipping(b, address, ship.Options{
		Evicts: evicts, TakeOver: f.TakeOver, Sync: f.StoreMode == "sync", MaxLag: f.StoreMaxLag, History: history, URL: base, Log: log,
	}), b.Close, nil
}

// given names the flags or variables that were set and have no effect without an object
// store.
func (f *StoreFlags) given(evicts bool, history time.Duration) string {
	var all []string
	for _, one := range []struct {
		name string
		set  bool
	}{
		{"store-endpoint", len(f.StoreEndpoint) > 0},
		{"store-mode", f.StoreMode != "async"},
		{"store-max-lag", f.StoreMaxLag != 0},
		{"take-over", f.TakeOver},
		{"store-history", history != defaultHistory},
		{"cache-size", evicts},
	} {
		variable := "KIST_" + strings.ToUpper(strings.ReplaceAll(one.name, "-", "_"))
		switch {
		case one.set && os.Getenv(variable) != "":
			all = append(all, variable)
		case one.set:
			all = append(all, "--"+one.name)
		}
	}
	return strings.Join(all, " and ")
}

// Shipping returns the options with the bucket.
func Shipping(b *s3.Bucket, address string, o ship.Options) ship.Options {
	o.Remote, o.Expires, o.Address = b, b.Expires, strings.TrimRight(address, "/")
	for _, one := range b.Endpoints() {
		o.Endpoints = append(o.Endpoints, blobs.Remote(one))
	}
	return o
}
