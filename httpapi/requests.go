package httpapi

import (
	"encoding/hex"
	"net/http"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"kist/kv"
	"kist/kv/field"
	"kist/kv/record"
)

const requestsPath = apiPath + "upload-requests"

// requestRoutes are the owner's operations of upload requests.
func requestRoutes() []route {
	status := param{"query", "status", "How far the items are; any if absent.", ref("UploadState"), "pending"}
	page := []param{
		{"query", "limit", "Items of a page, which ends sooner at 4 MiB: go on with nextCursor.", object{"type": "integer", "minimum": 1, "maximum": maxPage, "default": defaultPage}, 50},
		{"query", "offset", "Items to pass over; not together with cursor.", object{"type": "integer", "minimum": 0, "maximum": maxOffset}, 0},
		{"query", "cursor", "nextCursor of the page before. It holds a place and not a number: what is decided in between hides nothing.", object{"type": "string"}, "AQ"},
	}
	queue := named("UploadItemList", jsonOf(members(object{"items": allOf("UploadItem"), "total": wholeTotal, "nextCursor": nextCursor}, "items", "total", "nextCursor"), nil))
	first := status
	first.doc = "How far the items are; pending if absent."
	return []route{
		{
			method: "GET", path: requestsPath, id: "listUploadRequests", tag: "upload-requests", summary: "Lists the caller's upload requests.",
			access: reads, args: pageParams(shortSorts), reply: reply{200, "A page of them.", listOf("UploadRequest")}, serve: listRequests,
		},
		{
			method: "POST", path: requestsPath, id: "createUploadRequest", tag: "upload-requests", summary: "Makes an upload request: a link at which others leave files.",
			access: writes, body: bodyOf("UploadRequestCreate"), reply: reply{201, "The upload request.", dataOf("UploadRequest")}, fails: []int{409}, serve: createRequest,
		},
		{
			method: "GET", path: requestsPath + "/{id}", id: "readUploadRequest", tag: "upload-requests", summary: "Reads an upload request.",
			access: reads, reply: reply{200, "The upload request.", dataOf("UploadRequest")}, fails: []int{404}, serve: readRequest,
		},
		{
			method: "PATCH", path: requestsPath + "/{id}", id: "editUploadRequest", tag: "upload-requests", summary: "Changes an upload request.",
			access: writes, body: bodyOf("UploadRequestEdit"), reply: reply{200, "The upload request.", dataOf("UploadRequest")}, fails: []int{404, 409}, serve: patchRequest,
		},
		{
			method: "DELETE", path: requestsPath + "/{id}", id: "removeUploadRequest", tag: "upload-requests", summary: "Deletes an upload request and what waits in its queue; approved files stay.",
			access: writes, reply: done, fails: []int{404}, serve: removeRequest,
		},
		{
			method: "GET", path: requestsPath + "/queue", id: "listPendingUploads", tag: "upload-requests", summary: "Lists what came in by all upload requests, oldest first.",
			access: reads, args: append([]param{first}, page...), reply: reply{200, "A page of the queue.", queue}, serve: listQueue,
		},
		{
			method: "GET", path: requestsPath + "/{id}/queue", id: "listUploadItems", tag: "upload-requests", summary: "Lists what came in by one upload request, oldest first.",
			access: reads, args: append([]param{status}, page...), reply: reply{200, "A page of the queue.", queue}, fails: []int{404}, serve: listQueue,
		},
		{
			method: "PATCH", path: requestsPath + "/{id}/queue", id: "decideUploads", tag: "upload-requests", summary: "Approves or rejects pending items, " + strconv.Itoa(maxDecided) + " at most: all of them, or none.",
			access: writes, body: decisionsBody(),
			reply: reply{200, "The items, in the order given.", named("UploadItemsDecided", jsonOf(members(object{"items": allOf("UploadItem")}, "items"), nil))},
			fails: []int{404, 409}, serve: decideItems,
		},
		{
			method: "PATCH", path: requestsPath + "/{id}/queue/{itemId}", id: "decideUpload", tag: "upload-requests", summary: "Approves a pending item, which makes a file of it, or rejects it.",
			access: writes, body: bodyOf("UploadDecision"), reply: reply{200, "The item.", dataOf("UploadItem")}, fails: []int{404, 409}, serve: decideItem,
		},
		{
			method: "GET", path: requestsPath + "/{id}/queue/{itemId}/content", id: "readUploadContent", tag: "upload-requests", summary: "The bytes of a pending item, for its owner alone.",
			access: reads, args: conditional, reply: reply{200, "The content.", bytesOf()}, fails: []int{206, 304, 404, 412, 416, 503}, serve: readItemContent,
		},
	}
}

// answerRequest answers {"data": request}, as it is now.
func (c *request) answerRequest(status int, id record.ID) error {
	v := &record.ShownRequest{Base: c.s.Base}
	if err := c.s.Store.View(func(tx *kv.Tx) error {
		q, err := tx.Request(c.owner(), id)
		if err == nil {
			tx.ShowRequest(q, v)
		}
		return err
	}); err != nil {
		return err
	}
	return c.respondData(status, v)
}

func listRequests(c *request) error {
	return answerList(c,
		func(tx *kv.Tx) ([]record.Request, error) { return tx.Requests(c.owner()) },
		func(q *record.Request) (record.ID, string) { return q.ID, q.Title },
		func(tx *kv.Tx, q *record.Request) (*record.ShownRequest, error) {
			v := &record.ShownRequest{Base: c.s.Base}
			tx.ShowRequest(q, v)
			return v, nil
		})
}

func createRequest(c *request) error {
	form := &record.RequestForm{Request: record.NewRequest()}
	problems := c.decodeNew(form)
	var ends error
	if err := record.CheckEnd(form.Expires, c.s.Store.Now()); err != nil {
		ends = field.Problems{"expiresAt": err.Error()}
	}
	if err := joinProblems(problems, ends); err != nil {
		return err
	}
	form.Finish()
	hash, err := c.hash(form.Secret)
	if err != nil {
		return err
	}
	var q *record.Request
	if err := c.s.Store.Update(func(tx *kv.Tx) (err error) {
		q, err = tx.AddRequest(c.owner(), form, hash)
		return err
	}); err != nil {
		return err
	}
	return c.answerRequest(http.StatusCreated, q.ID)
}

func readRequest(c *request) error {
	id, err := c.uuid("upload request")
	if err != nil {
		return err
	}
	return c.answerRequest(http.StatusOK, id)
}

func patchRequest(c *request) error {
	id, err := c.uuid("upload request")
	if err != nil {
		return err
	}
	form := new(record.RequestForm)
	in, err := c.decodePatch(form)
	if err != nil {
		return err
	}
	hash, err := c.hash(form.Secret)
	if err != nil {
		return err
	}
	if err := c.s.Store.Update(func(tx *kv.Tx) error {
		q, err := tx.Request(c.owner(), id)
		if err != nil {
			return err
		}
		form := &record.RequestForm{Request: *q}
		if err := field.Patch(form, in); err != nil {
			return err
		}
		form.Finish()
		if form.Secret.Said {
			form.Password = hash
		}
		return tx.SaveRequest(&form.Request)
	}); err != nil {
		return err
	}
	return c.answerRequest(http.StatusOK, id)
}

func removeRequest(c *request) error {
	id, err := c.uuid("upload request")
	if err != nil {
		return err
	}
	if err := c.s.Store.RemoveRequest(c.owner(), id); err != nil {
		return err
	}
	return c.respondOK()
}

// listQueue lists the items of one request, or the pending ones of all.
func listQueue(c *request) error {
	values, err := c.query()
	if err != nil {
		return err
	}
	args := arguments{Values: values}
	q := kv.Queue{
		Owner: c.owner(), State: record.State(args.Get("status")),
		Limit: args.number("limit", 1, maxPage, defaultPage), Offset: args.number("offset", 0, maxOffset, 0),
	}
	p := page{limit: q.Limit, cursor: args.Get("cursor"), sort: kv.Oldest}
	if p.cursor != "" && args.Get("offset") != "" {
		args.refuse("offset cannot be used together with cursor")
	}
	if q.State != "" && !slices.Contains(record.States, q.State) {
		args.refuse("status must be one of: " + join(record.States))
	}
	if err := args.err(); err != nil {
		return err
	}
	if c.arg("id") == "" {
		if q.State == "" {
			q.State = record.Pending
		}
	} else if q.Request, err = c.uuid("upload request"); err != nil {
		return err
	}
	list := c.r.URL.Path + " " + string(q.State)
	after, err := p.position(list)
	if err != nil {
		return err
	}
	if len(after) > 0 {
		if len(after) != len(q.After) {
			return errCursor
		}
		q.After = record.ID(after)
	}
	q.Limit++ // to see whether there is another page
	return c.respondLarge(http.StatusOK, pageBytes, func(dst []byte) ([]byte, error) {
		var items []*record.Item
		var total int64
		if err := c.s.Store.View(func(tx *kv.Tx) (err error) {
			if q.Request != uuid.Nil {
				if _, err := tx.Request(q.Owner, q.Request); err != nil {
					return err
				}
			}
			items, total, err = tx.Queue(q)
			return err
		}); err != nil {
			return dst, err
		}
		dst, n := appendPage(append(dst, `{"items":`...), items, p.limit)
		next := ""
		if n < len(items) {
			next = p.write(list, items[n-1].ID[:])
		}
		return appendEnd(dst, int(total), next), nil
	})
}

// maxDecided is how many items one request decides.
const maxDecided = 500

// decisions is a decision on several items.
type decisions struct {
	items []string
	record.Decision
}

func (d *decisions) Fields(s *field.Set) {
	s.IDs("items", &d.items, maxDecided, field.Required, field.Filled).Says("Ids of the items.", `["01890a5d-ac96-774b-bcce-b302099a8057"]`)
	d.Decision.Fields(s)
}

func decisionsBody() *content {
	return named("UploadDecisions", jsonOf(shapeOf(new(decisions), create), nil))
}

// decideItems decides several items alike.
func decideItems(c *request) error {
	request, err := c.uuid("upload request")
	if err != nil {
		return err
	}
	form := new(decisions)
	if err := c.decodeNew(form); err != nil {
		return err
	}
	var ids []record.ID
	for _, t := range form.items {
		if id := uuid.MustParse(t); !slices.Contains(ids, id) { // IDs are clean
			ids = append(ids, id)
		}
	}
	var all []*record.Item
	if err := c.s.Store.Update(func(tx *kv.Tx) (err error) {
		if _, err = tx.Request(c.owner(), request); err == nil {
			all, err = tx.DecideAll(c.owner(), request, ids, &form.Decision)
		}
		return err
	}); err != nil {
		return err
	}
	return c.respondLarge(http.StatusOK, pageBytes, func(dst []byte) ([]byte, error) {
		return append(appendAll(append(dst, `{"items":`...), all), '}'), nil
	})
}

// place reads which item the path names.
func (c *request) place() (request, item record.ID, err error) {
	request, err = c.uuid("upload request")
	if err == nil {
		if item, err = uuid.Parse(c.arg("itemId")); err != nil {
			err = record.NotFound("upload")
		}
	}
	return request, item, err
}

func decideItem(c *request) error {
	request, item, err := c.place()
	if err != nil {
		return err
	}
	decision := new(record.Decision)
	if err := c.decodeNew(decision); err != nil {
		return err
	}
	var i *record.Item
	if err := c.s.Store.Update(func(tx *kv.Tx) (err error) {
		i, err = tx.Decide(c.owner(), request, item, decision)
		return err
	}); err != nil {
		return err
	}
	return c.respondData(http.StatusOK, i)
}

// readItemContent lets the owner look at what waits. It comes with the headers
// of any stored byte: it is as hostile, and nobody has vouched for it.
func readItemContent(c *request) error {
	request, item, err := c.place()
	if err != nil {
		return err
	}
	var i *record.Item
	if err := c.s.Store.View(func(tx *kv.Tx) (err error) { i, err = tx.Item(c.owner(), request, item); return err }); err != nil {
		return err
	}
	if i.State != record.Pending {
		return record.NotFound("content")
	}
	f, err := c.stored(i.Ref, i.Size)
	if err = c.unreadable(i.ID, true, err); missing(err) {
		return record.NotFound("content")
	}
	if err != nil {
		return err
	}
	defer f.Close()
	h := c.w.Header()
	hostile(h, i.MimeType, i.Name, c.asDownload(), false)
	h.Set("Etag", `"`+hex.EncodeToString(i.Ref[:])+`"`)
	h.Set("Cache-Control", "private, no-store")
	return c.sendContent(f, i.Size, func(status int) error { return c.refusal(status, i.Size) })
}
