package httpapi

import (
	"context"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"time"

	"kist/httpapi/limit"
	"kist/httpapi/web"
)

// What the tests outside of the package see of it.

const MaxQRText = maxQRText

// AccountOps and InstanceOps are the operations that the command line uses.
var (
	AccountOps  = accountOps
	InstanceOps = instanceOps
)

type (
	ShownHealth = shownHealth
	ShownBackup = shownBackup

	BackupHealth = backupHealth
)

// Table is the table of all operations.
func Table() []Route { return new(Server).table() }

// A PageOfApp is a page of the app: its path, and the script that only it needs.
type PageOfApp struct {
	Path, Module string
	List         bool
}

func AppPages() (all []PageOfApp) {
	for _, p := range appPages() {
		all = append(all, PageOfApp{p.path, p.module, p.kind != nil && p.module != "board"})
	}
	return all
}

func (s *Server) Handler() http.Handler { return s.handler }

// Handle has another handler answer instead.
func (s *Server) Handle(h http.Handler) { s.handler = h }

// Middleware is what every request goes through.
func (s *Server) Middleware(h http.Handler) http.Handler { return s.middleware(h) }

func (s *Server) ServeOperation(w http.ResponseWriter, r *http.Request, id string, serve func(*web.Request) error) {
	s.serveOperation(w, r, id, nil, serve)
}

// ErrNoAnswer and ReadyWait are those of a storage that hangs.
var ErrNoAnswer = errNoAnswer

const ReadyWait = readyWait

func (s *Server) Storage(ctx context.Context) error { return s.storage(ctx) }

// Checking runs fn as the check of the storage that is in progress.
func (s *Server) Checking(ctx context.Context, fn func()) error {
	_, err := s.readiness.checks.Do(ctx, struct{}{}, func(context.Context) (error, error) { fn(); return nil, nil })
	return err
}

// ForgetCheck makes the next answer check the storage again. Call it in Checking.
func (s *Server) ForgetCheck() { s.readiness.checkedAt = time.Time{} }

// Working is how many connections, and how many requests that are counted, are in progress.
func (s *Server) Working() (connections, requests int) {
	return s.connections.Count(limit.Working), s.requests.Count(limit.Working)
}

var wildcard = regexp.MustCompile(`[:*](\w+)`)

// Registered are the operations that the routers hold, as OpenAPI writes them.
// The package does not tell, so its tree is read.
func (s *Server) Registered() []string {
	var all []string
	var walk func(method, path string, node reflect.Value)
	walk = func(method, path string, node reflect.Value) {
		path += node.Elem().FieldByName("path").String()
		if !node.Elem().FieldByName("handle").IsNil() {
			all = append(all, method+" "+wildcard.ReplaceAllString(path, "{$1}"))
		}
		for children, i := node.Elem().FieldByName("children"), 0; i < children.Len(); i++ {
			walk(method, path, children.Index(i))
		}
	}
	for _, router := range s.routers {
		for trees := reflect.ValueOf(router).Elem().FieldByName("trees").MapRange(); trees.Next(); {
			walk(trees.Key().String(), "", trees.Value())
		}
	}
	slices.Sort(all)
	return all
}
