package serve

import (
	"log/slog"
	"os"
	"strings"
	"time"

	"kist/admin/exit"
	"kist/blobs"
	"kist/blobs/s3"
	"kist/blobs/sealed"
	"kist/kv/ship"
)

// AccessFlags say how to reach an object store.
type AccessFlags struct {
	StoreEndpoint []string `placeholder:"URL" help:"URL of the object store, such as https://s3.example.org; AWS if absent. If the store has several, separate them with commas: when one fails, the next is used."`
	StoreRegion   string   `default:"us-east-1" placeholder:"REGION" help:"The region of the object store."`
	StoreKeyID    string   `name:"store-key-id" placeholder:"ID" help:"The id of the key for the object store. If absent, it comes from the usual AWS_ variables and files."`
	StoreKeyFile  string   `placeholder:"FILE" help:"The key file that encrypts everything before it leaves for the object store. kist store key makes one."`
	StoreSecret   string   `placeholder:"SECRET" help:"The secret of that key. Put it into a file that KIST_STORE_SECRET_FILE names instead: other users can see the command line."`
}

// A Store is an object store, with encryption if there is a key file. A request fails with a blobs.Unfit if
// what is there does not fit the key.
type Store struct {
	blobs.Remote
	Ends   []blobs.Remote // the same store by each of its addresses
	Bucket *s3.Bucket     // what the Remote is in front of
	Sealed bool           // it encrypts everything
}

// Open returns the store at an address such as s3://bucket/prefix. Its bucket must be closed.
func (f *AccessFlags) Open(address string) (*Store, error) {
	b, err := f.Plain(address)
	if err != nil {
		return nil, err
	}
	s := &Store{Bucket: b}
	var ends []blobs.Remote
	for _, one := range b.Endpoints() {
		ends = append(ends, one)
	}
	if f.StoreKeyFile == "" {
		s.Remote, s.Ends = sealed.Plain(b, ends...)
		return s, nil
	}
	key, err := sealed.ReadKey(f.StoreKeyFile)
	if err != nil {
		return nil, err
	}
	s.Sealed = true
	s.Remote, s.Ends = sealed.New(key, b, ends...)
	return s, nil
}

// Plain returns the bucket at an address such as s3://bucket/prefix, as it is.
func (f *AccessFlags) Plain(address string) (*s3.Bucket, error) {
	b, err := s3.Open(s3.Options{
		URL: address, Endpoints: f.StoreEndpoint, Region: f.StoreRegion, KeyID: f.StoreKeyID, Secret: f.StoreSecret,
	})
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
	s, err := f.AccessFlags.Open(f.Store)
	if err != nil {
		return nil, nil, err
	}
	return s, s.Bucket.Close, nil
}

// StoreFlags choose an object store that everything is copied to.
type StoreFlags struct {
	Store string `placeholder:"ADDRESS" help:"An object store that everything is copied to, such as s3://bucket/prefix."`
	AccessFlags
	StoreMode string `default:"async" enum:"async,sync" placeholder:"MODE" help:"When a change is acknowledged: async, when it is on the local disk (about a second before it is in the object store), or sync, when it is in the object store, too."`
	TakeOver  bool   `help:"Become the one server that writes to the object store, though another data directory wrote there last. That server stops storing when it notices. Needed once after kist restore from an object store."`
}

// defaultHistory is --store-history where it is not given, which the command line declares.
const defaultHistory = 30 * 24 * time.Hour

// Open returns the object store that everything is copied to, and a function that releases it
// when the store is closed. Without one, o.Remote is nil.
func (f *StoreFlags) Open(
	base string, evicts bool, history time.Duration, log *slog.Logger,
) (o ship.Options, release func(), err error) {
	switch {
	case f.Store == "" && f.given(evicts, history) != "":
		return o, nil, exit.Misused("there is no --store, so leave out %s, or add --store", f.given(evicts, history))
	case history > 0 && history < time.Hour:
		return o, nil, exit.Misused("--store-history must be at least 1h, or 0")
	case f.Store == "":
		return o, func() {}, nil
	}
	s, err := f.AccessFlags.Open(f.Store)
	if err != nil {
		return o, nil, err
	}
	return ship.Options{
		Remote: s, Endpoints: s.Ends, Address: strings.TrimRight(f.Store, "/"),
		Evicts: evicts, TakeOver: f.TakeOver, Sync: f.StoreMode == "sync", Sealed: s.Sealed, History: history, URL: base,
		Log: log,
	}, s.Bucket.Close, nil
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
		{"store-key-file", f.StoreKeyFile != ""},
		{"store-mode", f.StoreMode != "async"},
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
