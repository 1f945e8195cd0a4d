package admin

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"
	"rsc.io/qr"

	"kist/admin/console"
	"kist/admin/control"
	"kist/admin/exit"
	"kist/admin/serve"
	"kist/blobs/sealed"
	"kist/kv/record"
)

type storeCommands struct {
	Key     storeKey     `cmd:"" help:"Make the key file that encrypts an object store or a backup, and print its recovery sheet once."`
	Encrypt storeEncrypt `cmd:"" help:"Encrypt an object store that is not encrypted yet. If it is interrupted, run it again: it goes on."`
}

type storeKey struct {
	File      string `arg:"" placeholder:"FILE" help:"The key file. It must not exist yet."`
	FromWords bool   `help:"Make the file again from the words of its recovery sheet, which are read from standard input."`
}

// madeKey is what storeKey prints as JSON.
type madeKey struct {
	File  string   `json:"file"`
	ID    string   `json:"id"`
	Words []string `json:"words,omitempty"`
}

func (cmd *storeKey) Run(c *Call) error {
	_, err := os.Lstat(cmd.File)
	if err == nil {
		return fmt.Errorf("%s exists, and a key file is never overwritten: what is encrypted with it "+
			"would be lost; name another file", cmd.File)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	secret := sealed.NewSecret()
	if cmd.FromWords {
		secret, err = cmd.read(c)
		if err != nil {
			return err
		}
	}
	key, err := sealed.NewKey(secret)
	if err != nil {
		return err
	}
	if err := writeKey(cmd.File, secret, key); err != nil {
		return err
	}
	if cmd.FromWords {
		return c.say(madeKey{File: cmd.File, ID: key.ID()}, "Made the key file %s again. Its key is %s.", cmd.File, key.ID())
	}
	return c.say(madeKey{cmd.File, key.ID(), secret.Words()}, "%s", sheet(cmd.File, secret, key))
}

// read reads the words of a recovery sheet.
func (cmd *storeKey) read(c *Call) (sealed.Secret, error) {
	if !term.IsTerminal(int(c.Stdin.Fd())) {
		text, err := readAll(c.Stdin)
		if err != nil {
			return sealed.Secret{}, fmt.Errorf("cannot read the words: %w", err)
		}
		return sealed.FromWords(text)
	}

	fmt.Fprintf(c.Stderr, "Type the %d words of the recovery sheet, in order. Several lines are fine; "+
		"an empty line ends them.\n", sealed.Words)
	var text strings.Builder
	lines := bufio.NewScanner(io.LimitReader(c.Stdin, maxValueFile))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" {
			break
		}
		text.WriteString(line + "\n")
		secret, err := sealed.FromWords(text.String())
		if err == nil {
			return secret, nil
		}
	}
	if err := lines.Err(); err != nil {
		return sealed.Secret{}, fmt.Errorf("cannot read the words: %w", err)
	}
	return sealed.FromWords(text.String())
}

// writeKey makes the key file, which only its owner can read. It overwrites nothing.
func writeKey(path string, secret sealed.Secret, key *sealed.Key) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("cannot make the key file: %w", err)
	}
	_, err = fmt.Fprintf(f, "# The key %s of Kist: without it nothing that it has encrypted can be read.\n%s\n",
		key.ID(), secret.Text())
	err = cmp.Or(err, f.Sync())
	err = errors.Join(err, f.Close())
	if err != nil {
		_ = os.Remove(path) // half a file would be in the way
		return fmt.Errorf("cannot write the key file: %w", err)
	}
	return nil
}

// sheet is the recovery sheet.
func sheet(file string, secret sealed.Secret, key *sealed.Key) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Made the key file %s. Its key is %s.\n\n", file, key.ID())
	b.WriteString("Recovery sheet. It is shown only now: print it or write it down, and keep it in another house.\n" +
		"Everybody who has it can read everything. Without it and without the file nobody can.\n\n")
	words, at := secret.Words(), 1
	const columns = 4
	for row := range slices.Chunk(words, columns) {
		line := ""
		for _, word := range row {
			line += fmt.Sprintf("%2d. %-10s", at, word)
			at++
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	b.WriteByte('\n')
	code, err := qr.Encode(secret.Text(), qr.M)
	if err == nil { // else the words are enough
		b.WriteString(blocks(code))
	}
	b.WriteString("\nkist store key FILE --from-words makes the file again " +
		"from the words, or from the text of the code.")
	return b.String()
}

// blocks draws a code with two dots in each character: light ones are full, for dark terminals.
func blocks(code *qr.Code) string {
	const margin = 2
	dark := func(x, y int) bool { return code.Black(x, y) } // false outside
	var b strings.Builder
	for y := -margin; y < code.Size+margin; y += 2 {
		for x := -margin; x < code.Size+margin; x++ {
			upper, lower := dark(x, y), dark(x, y+1)
			switch {
			case upper && lower:
				b.WriteByte(' ')
			case upper:
				b.WriteString("▄")
			case lower:
				b.WriteString("▀")
			default:
				b.WriteString("█")
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

type storeEncrypt struct {
	Store string `required:"" placeholder:"ADDRESS" help:"The object store, such as s3://bucket/prefix."`
	serve.AccessFlags
	scratchFlag
	LeaveDamaged bool `help:"Leave files behind whose bytes in the object store are damaged."`
}

func (cmd *storeEncrypt) Run(c *Call) error {
	if cmd.StoreKeyFile == "" {
		return exit.Misused("--store-key-file is missing; kist store key FILE makes a key file")
	}
	key, err := sealed.ReadKey(cmd.StoreKeyFile)
	if err != nil {
		return err
	}
	if err := cmd.requireStopped(c); err != nil {
		return err
	}
	b, err := cmd.Plain(cmd.Store)
	if err != nil {
		return err
	}
	defer b.Close()
	done, err := c.job(c.DataDir, cmd.Scratch).Encrypt(context.Background(), b, key, cmd.Store, cmd.LeaveDamaged)
	if err != nil {
		return err
	}
	if done.Already {
		return c.say(done, "%s is encrypted already. Nothing was changed.", cmd.Store)
	}
	return c.say(done, "%s is encrypted now: %s (%s) copied, %s read back and intact, and %s removed.\n"+
		"Start kist serve with --store-key-file from now on, and give the key file to the commands that use the store.\n"+
		"If the operator keeps versions or copies of removed objects, what was not encrypted is still among them.",
		cmd.Store, record.Plural(done.Copied, "object"), console.Bytes(done.Bytes), record.Plural(done.Checked, "object"),
		record.Plural(done.Removed, "object"))
}

// requireStopped fails if the server of the data directory runs with an object store. One of another machine is
// stopped by the fence.
func (cmd *storeEncrypt) requireStopped(c *Call) error {
	client, err := control.Running(context.Background(), c.DataDir)
	if err != nil {
		return nil //nolint:nilerr // no server runs here
	}
	got, err := question(client)
	err = errors.Join(err, client.Close())
	ships := err != nil || got.about.Store != nil // a server that does not say may
	if !ships {
		return nil
	}
	return fmt.Errorf("the server of %s is running; stop it first, and start it with --store-key-file afterwards",
		c.DataDir)
}
