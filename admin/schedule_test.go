package admin_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/matryer/is"
)

// scheduled lists the backups of a folder.
func (p *place) scheduled(folder string) (all []struct {
	Path string
	OK   bool
},
) {
	p.t.Helper()
	if err := json.Unmarshal([]byte(p.must("backup", "list", folder, "--json")), &all); err != nil {
		p.t.Fatal(err)
	}
	return all
}

// The disk dies, and what the handbook says brings everything back from the folder of backups.
func TestRestoreDrill(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	p.ann()
	folder := p.path("backup")
	p.must("backup", "init", folder)
	s := p.serve("--backup-to", folder)
	p.until("there is a backup", func() bool { return len(p.scheduled(folder)) == 1 })
	s.stop()
	is.True(p.scheduled(folder)[0].OK)

	// A clock that was wrong has left one that looks like the newest, and it cannot be restored.
	note, err := os.ReadFile(filepath.Join(p.scheduled(folder)[0].Path, "CHECKED"))
	is.NoErr(err)
	future := filepath.Join(folder, "2099-01-01T00-00-00Z")
	is.NoErr(os.Mkdir(future, 0o700))
	is.NoErr(os.WriteFile(filepath.Join(future, "CHECKED"), note, 0o600))
	is.NoErr(os.RemoveAll(p.data()))

	text := session(t, "embed/help/backups.md")
	text = strings.ReplaceAll(text, "/mnt/backup/kist", folder)
	out := p.play(text+"\nuntil [ -e kist-data/kist.sock ]; do :; done\nkist user list\n"+
		"curl -fsS http://"+p.addr+"/readyz\nkill $(cat kist-data/LOCK)\nwait", "KIST_LISTEN="+p.addr)
	is.True(strings.Contains(out, "ann"))
	is.True(strings.Contains(out, "good"))
}

// A folder that is not marked is refused at the first start. Later its disk may only be missing: the server starts,
// says so, and writes nothing there.
func TestUnmarkedFolder(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	p.ann()
	folder := p.path("backup")
	is.NoErr(os.Mkdir(folder, 0o700))
	refused := p.run("", "serve", "--backup-to", folder)
	is.Equal(refused.code, 1)
	is.True(strings.Contains(refused.err, "kist backup init "+folder))

	p.must("backup", "init", folder)
	p.must("backup", "init", folder) // once more does no harm
	s := p.serve("--backup-to", folder)
	p.until("there is a backup", func() bool { return len(p.scheduled(folder)) == 1 })
	s.stop()
	is.NoErr(os.RemoveAll(folder))
	is.NoErr(os.Mkdir(folder, 0o700))
	s = p.serve("--backup-to", folder)
	status, _ := p.get("/readyz", "")
	is.Equal(status, 200)
	s.stop()
	left, err := filepath.Glob(filepath.Join(folder, "*"))
	is.NoErr(err)
	is.Equal(len(left), 0)

	// It is the same folder that may be missing. Another one is mistyped.
	for _, mistyped := range []string{p.path("bakcup"), p.path("backup", "no"), p.data("INSTANCE")} {
		refused = p.run("", "serve", "--backup-to", mistyped)
		is.Equal(refused.code, 1)
		is.True(strings.Contains(refused.err, mistyped))
		if !strings.HasPrefix(mistyped, p.data()) {
			is.True(strings.Contains(refused.err, "the last backups were made in "+folder))
		}
	}
	moved := p.path("moved")
	p.must("backup", "init", moved)
	s = p.serve("--backup-to", moved)
	p.until("there is a backup", func() bool { return len(p.scheduled(moved)) == 1 })
	s.stop()
	is.True(strings.Contains(s.log.String(), "another folder"))
	is.Equal(p.run("", "serve", "--backup-to", folder).code, 1)
}

// kist backup DEST works with and without the word to; init and list are its other commands.
func TestBackupWords(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	p.ann()
	p.must("backup", p.path("one"))
	p.must("backup", "to", p.path("two"))
	p.must("backup", p.path("three.tar"), "--json")
	p.must("backup", "./init")
	is.True(p.exists(p.path("init", "journal")))
	is.True(strings.Contains(p.must("backup", "list", p.path("one")), "There are no backups"))
	for code, words := range map[int][]string{
		3: {"list", p.path("nowhere")}, 2: {"list"}, 1: {"init", p.path("one")},
	} {
		is.Equal(p.run("", append([]string{"backup"}, words...)...).code, code)
	}
	is.Equal(p.run("", "backup", "init", p.data("x")).code, 1)
}

// kist backup into a marked folder makes one more backup there, with and without a server, and none that another
// program would take for something else. What the folder holds is what doctor and Admin say.
func TestBackupIntoSchedule(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	p.ann()
	folder := p.path("backup")
	p.must("backup", "init", folder)
	said := p.must("backup", folder)
	is.True(strings.Contains(said, "Backed up to "+folder+string(filepath.Separator)+"20"))
	p.must("backup", "./backup", "--json")
	is.Equal(len(p.scheduled(folder)), 2)
	is.Equal(p.run("", "backup", folder, "--key-file", p.path("key")).code, 2)

	s := p.serve() // which makes none by schedule
	p.must("backup", folder)
	is.Equal(len(p.scheduled(folder)), 3)
	s.stop()

	s = p.serve("--backup-to", folder, "--backup-keep", "9y")
	p.must("backup", folder) // the server makes it, and removes what need not be kept
	is.True(strings.Contains(s.log.String(), "backed up"))
	s.stop()
	is.Equal(len(p.scheduled(folder)), 1)

	newest := p.scheduled(folder)[0].Path
	is.NoErr(os.RemoveAll(p.data()))
	p.must("restore", newest)
	is.True(!strings.Contains(p.run("", "doctor").out, "none is known"))
	is.NoErr(os.Remove(p.data("BACKUP")))
	s = p.serve("--backup-to", folder)
	p.until("doctor knows of the backup", func() bool {
		return !strings.Contains(p.run("", "doctor").out, "none is known")
	})
	s.stop()
}
