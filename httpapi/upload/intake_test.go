package upload_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/httpapi/upload"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/record"
)

// taken is an intake with one file, whose bytes are staged.
func taken(t *testing.T, a *apitest.App, f *upload.File, content string) *upload.Intake {
	t.Helper()
	in := upload.NewIntake(a.Server.Site)
	t.Cleanup(in.Close)
	budget, err := upload.BudgetOf(a.Server.Site, a.User.ID)
	a.NoErr(err)
	a.NoErr(in.Take(f, strings.NewReader(content), budget))
	return in
}

// What is known of a file after Keep does not depend on the way its bytes came.
func TestIntake(t *testing.T) {
	t.Parallel()
	const text = "<!doctype html><title>High tide</title>"
	ways := map[string]func(t *testing.T, a *apitest.App, f *upload.File) *upload.Intake{
		"at once": func(t *testing.T, a *apitest.App, f *upload.File) *upload.Intake {
			t.Helper()
			return taken(t, a, f, text)
		},
		"in pieces": func(t *testing.T, a *apitest.App, f *upload.File) *upload.Intake {
			t.Helper()
			in := upload.NewIntake(a.Server.Site)
			t.Cleanup(in.Close)
			stage, err := in.Begin(f)
			a.NoErr(err)
			for _, piece := range []string{text[:7], text[7:]} {
				_, err = io.WriteString(stage, piece)
				a.NoErr(err)
			}
			return in
		},
		"complete": func(t *testing.T, a *apitest.App, f *upload.File) *upload.Intake {
			t.Helper()
			stage, err := a.Server.Blobs.Stage()
			a.NoErr(err)
			_, err = io.WriteString(stage, text)
			a.NoErr(err)
			kept, err := stage.Keep()
			a.NoErr(err)
			in := upload.NewIntake(a.Server.Site)
			t.Cleanup(in.Close)
			in.Adopt(f, kept)
			return in
		},
	}
	for way, in := range ways {
		for _, tt := range []struct {
			who       string
			strangers bool
			claimed   string
			media     string
		}{
			{"the owner", false, "text/markdown", "text/markdown"},
			{"the owner without a type", false, "", "text/html"},
			{"a stranger", true, "text/markdown", "text/html"}, // whose word does not count
		} {
			t.Run(way+" by "+tt.who, func(t *testing.T) {
				t.Parallel()
				is := is.New(t)
				a := apitest.Start(t)
				f := &upload.File{Name: "tide", Claimed: tt.claimed}
				in := in(t, a, f)
				in.Strangers = tt.strangers
				is.NoErr(in.Keep(t.Context()))
				is.Equal(f.MimeType, tt.media)
				is.Equal(f.Size, int64(len(text)))
				is.Equal(f.Content().Ref, [32]byte(apitest.RefOf(text)))
				is.Equal(f.Body().SHA256, apitest.RefOf(text).String())
				is.Equal(f.Received().Name, "tide")
			})
		}
	}
}

// Contents that get no record are removed when the intake is closed, unless they are to stay.
func TestIntakeLeavesNothing(t *testing.T) {
	t.Parallel()
	add := func(a *apitest.App, in *upload.Intake, after error) error {
		form := record.NewForm(record.Files)
		return a.Server.Store.Update(func(tx *kv.Tx) error {
			if err := in.Carry(tx); err != nil {
				return err
			}
			f := in.Files[0]
			_, err := catalog.Add(tx, catalog.Draft{
				Owner: a.User.ID, Kind: record.Files, Form: f.Form(form), Content: f.Content(),
			})
			return errors.Join(err, after)
		})
	}
	refused := errors.New("refused")
	for name, tt := range map[string]struct {
		end  func(a *apitest.App, in *upload.Intake) error
		kept int // contents
	}{
		"staged": {func(*apitest.App, *upload.Intake) error { return nil }, 0},
		"kept":   {func(a *apitest.App, in *upload.Intake) error { return in.Keep(a.Context()) }, 0},
		"kept to stay": {func(a *apitest.App, in *upload.Intake) error {
			in.Stays = true
			return in.Keep(a.Context())
		}, 1},
		"not committed": {func(a *apitest.App, in *upload.Intake) error {
			a.NoErr(in.Keep(a.Context()))
			if err := add(a, in, refused); !errors.Is(err, refused) {
				return err
			}
			return nil
		}, 0},
		"recorded": {func(a *apitest.App, in *upload.Intake) error {
			a.NoErr(in.Keep(a.Context()))
			a.NoErr(add(a, in, nil))
			in.Recorded()
			return nil
		}, 1},
		"the content of another": {func(a *apitest.App, in *upload.Intake) error {
			a.Upload(nil, apitest.File("b.txt", "", tide)).Want(http.StatusCreated)
			return in.Keep(a.Context())
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			a := apitest.Start(t)
			in := taken(t, a, &upload.File{Name: "a.txt"}, tide)
			is.NoErr(tt.end(a, in))
			in.Close()
			in.Close() // again does nothing
			is.Equal(len(a.Staged()), 0)
			is.Equal(len(a.BlobNames()), tt.kept)
		})
	}
}

var tide = strings.Repeat("High tide at six.\n", 500) // too long to be carried in a record's transaction

// A file is read no further than the budget allows, and the reader's own error comes first.
func TestIntakeBounds(t *testing.T) {
	t.Parallel()
	a := apitest.Start(t)
	broken := errors.New("broken")
	for _, tt := range []struct {
		name   string
		from   io.Reader
		budget upload.Budget
		want   error
		fault  record.Fault
		read   int64 // bytes at most
	}{
		{"within", strings.NewReader(tide), upload.Budget{File: 9000, Left: 9000, Disk: 9000}, nil, 0, 9000},
		{
			"a file too large", strings.NewReader(tide),
			upload.Budget{File: 4000, Left: 9000, Disk: 9000},
			nil, record.TooLarge,
			4001,
		},
		{"quota", strings.NewReader(tide), upload.Budget{File: 9000, Left: 5000, Disk: 9000}, nil, record.Denied, 5001},
		{
			"quota below the size", strings.NewReader(tide),
			upload.Budget{File: 4000, Left: 3000, Disk: 9000},
			nil,
			record.Denied, 3001,
		},
		{"disk", strings.NewReader(tide), upload.Budget{File: 9000, Left: 9000, Disk: 100}, kv.ErrFull, 0, 9000},
		{"at its beginning", iotest.ErrReader(broken), upload.Budget{File: 9000, Left: 9000, Disk: 9000}, broken, 0, 0},
		{
			"in its middle", io.MultiReader(strings.NewReader(tide[:5000]), iotest.ErrReader(broken)),
			upload.Budget{File: 9000, Left: 9000, Disk: 9000},
			broken, 0, 5000,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			is := is.New(t)
			in := upload.NewIntake(a.Server.Site)
			defer in.Close()
			counted := &counter{Reader: tt.from}
			err := in.Take(&upload.File{Name: "a.txt"}, counted, &tt.budget)
			is.True(counted.n <= tt.read)
			var e *record.Error
			switch {
			case tt.want != nil:
				is.True(errors.Is(err, tt.want))
			case tt.fault == 0:
				is.NoErr(err)
			default:
				is.True(errors.As(err, &e))
				is.Equal(e.Fault, tt.fault)
			}
		})
	}
}

type counter struct {
	io.Reader
	n int64
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n += int64(n)
	return n, err
}

// A repeated upload is read and summed, but not stored.
func TestIntakeLooks(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	in := upload.NewIntake(a.Server.Site)
	defer in.Close()
	f := &upload.File{Name: "a.txt"}
	is.NoErr(in.Take(f, strings.NewReader(tide), upload.UnlimitedBudget()))
	is.Equal(f.Sum, [32]byte(apitest.RefOf(tide)))
	is.Equal(len(a.Staged()), 0)
}
