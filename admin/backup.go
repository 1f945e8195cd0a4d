package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/term"

	"kist/admin/backups"
	"kist/admin/console"
	"kist/admin/control"
	"kist/admin/exit"
	"kist/admin/ops"
	"kist/admin/serve"
	"kist/admin/socket"
	"kist/blobs/disk"
	"kist/blobs/sealed"
	"kist/kv/datadir"
	"kist/kv/record"
	"kist/kv/workcopy"
)

// scratchFlag says where a command keeps its temporary files.
type scratchFlag struct {
	Scratch string `placeholder:"DIR" help:"A folder for temporary files, which need about four times the size of the journal. By default they are kept where the command writes, or in the data directory."`
}

type backupCommand struct {
	scratchFlag
	serve.RemoteFlags
	KeyFile string `placeholder:"FILE" help:"Encrypt the tar with this key file. kist store key makes one, and kist restore needs it."`
	Dest    string `arg:"" placeholder:"DEST" help:"A folder, a file that ends in .tar, or - for a tar on standard output. A folder that holds a backup is brought up to date. One that kist backup init has marked gets one more."`
}

// backupCommands are kist backup: DEST makes a backup, the others are about those of serve --backup-to.
type backupCommands struct {
	To   backupCommand     `cmd:"" default:"withargs" help:"Back up everything to a folder or a tar. The server may be running. The word to may be left out."`
	Init backupInitCommand `cmd:"" help:"Mark an empty folder for the backups of serve --backup-to."`
	List backupListCommand `cmd:"" help:"List the backups that serve --backup-to has made."`
}

type backupInitCommand struct {
	Dir string `arg:"" placeholder:"DIR" help:"An empty folder, best on another disk. It is made if it does not exist."`
}

func (cmd *backupInitCommand) Run(c *Call) error {
	made, err := backups.Init(cmd.Dir, c.DataDir)
	if err != nil {
		return err
	}
	answer := map[string]any{"folder": cmd.Dir, "new": made}
	if !made {
		if err := backups.Adopt(c.DataDir); err != nil {
			return err
		}
		return c.say(answer, "%s is marked as a folder for backups already.", cmd.Dir)
	}
	text := fmt.Sprintf("%s is marked as a folder for backups.", cmd.Dir)
	uid, gid, known := disk.Owner(c.DataDir)
	mine, _, _ := disk.Owner(cmd.Dir)
	if known && uid != mine {
		text += fmt.Sprintf(" Give it to the user of the server: chown -R %d:%d %s", uid, gid, cmd.Dir)
	}
	if c.DataDir != serviceDir {
		return c.say(answer, "%s\nTo make them there: kist serve --backup-to %s", text, cmd.Dir)
	}
	dir, err := filepath.Abs(cmd.Dir)
	if err != nil {
		return err
	}
	return c.say(answer, "%s\nTo make them there, run: systemctl edit kist, and add these lines:\n\n"+
		"[Service]\nEnvironment=KIST_BACKUP_TO=%[2]s\nReadWritePaths=-%[2]s\n\nThen run: systemctl restart kist", text, dir)
}

type backupListCommand struct {
	Dir string `arg:"" optional:"" placeholder:"DIR" help:"The folder of the backups. By default that of the running server."`
}

func (cmd *backupListCommand) Run(c *Call) error {
	dir, err := cmd.folder(c)
	if err != nil {
		return err
	}
	all, err := backups.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return exit.Absent("folder at", dir)
	}
	if err != nil {
		return err
	}
	rows := [][]string{{"AT", "SIZE", "CHECKED", "STATE", "RESTORE"}}
	listed := []listedBackup{}
	now := time.Now()
	for _, b := range all {
		listed = append(listed, listedBackup{b.At, b.Path, b.OK(), b.Error, b})
		checked, state := "never", "good"
		if !b.Checked.IsZero() {
			checked = b.Checked.Local().Format(listLayout)
		}
		switch {
		case !b.OK():
			state = b.Error
		case b.Ahead(now):
			state = "It is dated ahead: the clock was wrong."
		}
		rows = append(rows, []string{
			b.At.Local().Format(listLayout), console.Bytes(b.Size), checked, console.Printable(state),
			"kist restore " + b.Path,
		})
	}
	if len(all) == 0 {
		return c.say(listed, "There are no backups in %s.", dir)
	}
	return c.say(listed, "%s", strings.TrimSuffix(console.Table(rows), "\n"))
}

// listedBackup is a backup in the answer of kist backup list --json.
type listedBackup struct {
	At    time.Time `json:"at"`
	Path  string    `json:"path"`
	OK    bool      `json:"ok"`
	Error string    `json:"error"`
	datadir.Backup
}

// listLayout is how the list writes times.
const listLayout = "2006-01-02 15:04"

// folder is the folder to list.
func (cmd *backupListCommand) folder(c *Call) (string, error) {
	if cmd.Dir != "" {
		return filepath.Abs(cmd.Dir)
	}
	const name = "name the folder: kist backup list DIR"
	client, err := control.Running(context.Background(), c.DataDir)
	if errors.Is(err, socket.ErrNobody) {
		return "", exit.Misused("no server is running on %s; %s", c.DataDir, name)
	}
	if err != nil {
		return "", err
	}
	var about control.About
	err = client.Call(context.Background(), http.MethodGet, "/about", control.Nothing{}, &about)
	err = errors.Join(err, client.Close())
	if err != nil {
		return "", err
	}
	if about.Backups == nil {
		return "", exit.Misused("the server makes no backups by schedule (serve --backup-to); %s", name)
	}
	return about.Backups.Folder, nil
}

func (cmd *backupCommand) Run(c *Call) error {
	if err := c.requireData(); err != nil {
		return err
	}
	if err := workcopy.Readable(c.DataDir); err != nil { // before anything is written
		return err
	}
	if f, ok := c.Stdout.(*os.File); ok && cmd.Dest == "-" && term.IsTerminal(int(f.Fd())) {
		return exit.Misused("a tar is not for the terminal; send it somewhere, such as: kist backup - > kist.tar")
	}
	if strings.EqualFold(filepath.Ext(cmd.Dest), ".zip") {
		return exit.Misused("a backup is a folder or a tar, not a zip; name a folder or a file that ends in .tar")
	}
	if cmd.KeyFile != "" && cmd.Dest != "-" && !strings.HasSuffix(cmd.Dest, ".tar") {
		return exit.Misused("--key-file encrypts a tar, and a folder cannot be encrypted; " +
			"name a file that ends in .tar, or - for standard output")
	}
	if backups.Marked(cmd.Dest) {
		return cmd.beside(c)
	}
	job := c.job(c.DataDir, cmd.Scratch)
	if cmd.KeyFile != "" {
		key, err := sealed.ReadKey(cmd.KeyFile)
		if err != nil {
			return err
		}
		job.Key = key
	}
	remote, release, err := cmd.Remote()
	if err != nil {
		return err
	}
	defer release()
	job.Remote = remote
	done, err := job.Backup(cmd.Dest, c.Stdout)
	if err != nil {
		return err
	}
	return c.sayCopied(done, "Backed up", allRead)
}

// beside makes a backup in a folder of those by schedule. If a server makes them there, it makes this one too.
func (cmd *backupCommand) beside(c *Call) error {
	folder, err := filepath.Abs(cmd.Dest)
	if err != nil {
		return err
	}
	const proof = "What is new in it was read back and is intact."
	made, asked, err := askForBackup(c, folder)
	if err != nil {
		return err
	}
	if asked {
		if made.BackedUp == nil {
			return fmt.Errorf("no backup was made: %s", made.Problem)
		}
		err := c.sayCopied(made.BackedUp, "Backed up", proof)
		if made.Problem != "" {
			return errors.New(made.Problem)
		}
		return err
	}

	remote, release, err := cmd.Remote()
	if err != nil {
		return err
	}
	defer release()
	job := c.job(c.DataDir, cmd.Scratch)
	job.Remote = remote
	done, err := backups.Make(folder, job)
	if done == nil {
		return fmt.Errorf("no backup was made: %w", err)
	}
	if err != nil {
		return err
	}
	return c.sayCopied(done, "Backed up", proof)
}

// askForBackup has the running server make a backup, if it makes them by schedule in the folder. asked is false if no
// server does.
func askForBackup(c *Call, folder string) (made control.Made, asked bool, err error) {
	client, err := control.Running(context.Background(), c.DataDir)
	if errors.Is(err, socket.ErrNobody) {
		return control.Made{}, false, nil
	}
	if err != nil {
		return control.Made{}, false, err
	}
	defer client.Close()
	var about control.About
	err = client.Call(context.Background(), http.MethodGet, "/about", control.Nothing{}, &about)
	if err != nil {
		return control.Made{}, false, err
	}
	if about.Backups == nil || !sameFolder(about.Backups.Folder, folder) {
		return control.Made{}, false, nil
	}
	err = client.Call(context.Background(), http.MethodPost, "/backup", control.Nothing{}, &made)
	return made, true, err
}

// sameFolder reports whether two paths lead to one folder.
func sameFolder(one, other string) bool {
	a, err := os.Stat(one)
	if err != nil {
		return false
	}
	b, err := os.Stat(other)
	return err == nil && os.SameFile(a, b)
}

// job is an operation on a data directory that reports to the user.
func (c *Call) job(dir, scratch string) ops.Job {
	return ops.Job{Dir: dir, Scratch: scratch, Stderr: c.Stderr, Log: c.Log}
}

// allRead is what sayCopied says of a copy that was read from end to end.
const allRead = "All of it was read back and is intact."

// sayCopied prints what a backup or a restore copied, and what was checked. It fails if
// files are missing.
func (c *Call) sayCopied(done *ops.BackedUp, what, proof string) error {
	to := " to " + done.Dest
	if done.Dest == "-" {
		to, proof = "", ""
	}
	if len(done.Missing) > 0 {
		proof = "It is incomplete."
	}
	text := fmt.Sprintf("%s%s: %s, %d of them (%s) copied now; checksum of the records %s. %s", what, to,
		record.Plural(done.Files, "file"), done.Copied, console.Bytes(done.Bytes), done.Digest, proof)
	text = strings.TrimRight(text, " ")
	for _, m := range done.Missing {
		if done.Store != "" {
			break // most of them should be in the object store
		}
		text += fmt.Sprintf("\nFile %s (%s) is not in it: %s.", m.ID, console.Printable(m.Name), m.Why)
	}
	if done.NoModes {
		text += "\nFile modes are not kept there: make sure that nobody else can read it."
	}
	out := *c
	if done.Dest == "-" {
		out.Stdout = out.Stderr // standard output has the tar
	}
	if err := out.say(done, "%s", text); err != nil {
		return err
	}
	n := len(done.Missing)
	switch {
	case n == 0:
		return nil
	case done.Store != "":
		return exit.Found("%s missing or damaged on this disk; the object store should have all files: "+
			"run this command again with --store %s",
			record.Plural(n, "file")+console.Word(n == 1, " is", " are"), done.Store)
	}
	return bytesMissing(n)
}
