package memproxy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"lazaret/client"
	"lazaret/internal/memgate"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// Limits of bodies, in bytes.
const (
	MaxRequest = 1 << 20
	MaxAnswer  = 16 << 20
)

// Limits on the number of items in a body. Each item needs a verdict.
const (
	MaxWritten = 100  // items in a write
	MaxItems   = 1000 // items in a response
)

// MaxTime is the time limit for a request, including the time of the store and of the verdicts.
const MaxTime = 2 * time.Minute

// Headers that set the origin, session and user of a request. The proxy does not pass them on to the store.
const (
	HeaderOrigin  = "Lazaret-Origin"
	HeaderSession = "Lazaret-Session"
	HeaderUser    = "Lazaret-User"
)

// Config configures a proxy.
type Config struct {
	Kind     string
	Upstream *url.URL
	Judge    memgate.Judge
	// Origin is the origin of a write that has no header Lazaret-Origin.
	Origin beliefs.Origin
	Held   memgate.Held // folder with the ids of held writes; it is created when it is needed
	Log    *slog.Logger
}

type proxy struct {
	Config
	http *http.Client
}

// New returns a handler that passes requests on to a store.
func New(cfg Config) (http.Handler, error) {
	routes, ok := kinds[cfg.Kind]
	if !ok {
		return nil, fmt.Errorf("the kind is %q, use one of %s", cfg.Kind, strings.Join(Kinds(), ", "))
	}
	if cfg.Upstream == nil || cfg.Upstream.Host == "" || cfg.Upstream.Scheme != "http" && cfg.Upstream.Scheme != "https" {
		return nil, fmt.Errorf("the upstream is %v, use an http or https URL", cfg.Upstream)
	}
	if cfg.Held == "" {
		return nil, errors.New("no folder is given for the ids of held writes")
	}
	if err := cfg.Held.Sweep(); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	p := &proxy{cfg, &http.Client{Timeout: time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	mux := http.NewServeMux()
	for _, r := range routes {
		h := func(w http.ResponseWriter, req *http.Request) { p.serve(w, req, &r) }
		mux.HandleFunc(r.pattern, h)
		mux.HandleFunc(r.pattern+"/{$}", h) // some clients append a slash
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, &refusal{http.StatusForbidden,
			fmt.Sprintf("%s %s is not a known path of %s, so its effects are unknown",
				r.Method, streams.Clip(r.URL.Path, 200), cfg.Kind), streams.Hold, ""})
	})
	return mux, nil
}

// refusal is a response with which the proxy itself refuses a request.
type refusal struct {
	status  int
	reason  string
	verdict streams.Verdict
	hold    string
}

func (r *refusal) Error() string { return r.reason }

// unjudged returns the refusal of a request that got no verdict. Its status is 4xx if repeating the request does not
// help: no valid event can be made from the request, or the proxy's credential is refused. Otherwise, the status is
// 503.
func unjudged(err error) *refusal {
	status := http.StatusServiceUnavailable
	if e := (*client.Error)(nil); errors.As(err, &e) {
		switch e.Code {
		case streams.CodeInvalid:
			status = http.StatusBadRequest
		case streams.CodeTooLarge:
			status = http.StatusRequestEntityTooLarge
		case streams.CodeCredential: // the proxy's credential is refused, so a retry does not help
			status = http.StatusForbidden
		}
	}
	return &refusal{status, err.Error(), streams.Hold, ""}
}

func refuse(w http.ResponseWriter, err error) {
	var r *refusal
	if !errors.As(err, &r) {
		r = &refusal{http.StatusBadGateway, err.Error(), streams.Hold, ""}
	}
	body := map[string]string{"error": "Lazaret: " + streams.Clip(r.reason, 2000), "verdict": r.verdict.String()}
	if r.hold != "" {
		body["hold"] = r.hold
	}
	b, _ := json.Marshal(body, json.Deterministic(true))
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Lazaret-Verdict", r.verdict.String())
	w.WriteHeader(r.status)
	w.Write(b)
}

// exchange is one request in progress.
type exchange struct {
	*proxy
	r      *http.Request
	ctx    context.Context
	head   streams.Head
	origin beliefs.Origin
	body   []byte // the request's body as JSON
	form   []byte // if the store expects a form: the body in this form
	kind   string // media type of the forwarded body
	// reached is set when the request was written to a connection to the store. The error of the request does not show
	// that: the transport may send a request again that the store has carried out, and then fail.
	reached atomic.Bool
}

func (p *proxy) serve(w http.ResponseWriter, r *http.Request, rt *route) {
	ctx, cancel := context.WithTimeout(r.Context(), MaxTime)
	defer cancel()
	r = r.WithContext(ctx)
	x, err := p.exchange(w, r, rt)
	if err != nil {
		refuse(w, err)
		return
	}
	var parents []string
	var undo func() error
	if rt.write != nil {
		if parents, undo, err = x.propose(rt.write); err != nil {
			refuse(w, err)
			return
		}
	}
	sent := x.body
	if x.form != nil {
		sent = x.form
	}
	res, body, err := x.send(r.Method, r.URL.Path, r.URL.RawQuery, sent)
	if err != nil {
		// The error is logged and not sent to the client, because it may repeat text of the store that was not judged.
		p.Log.Warn("the store did not answer", "err", err)
		if undo != nil && !x.reached.Load() {
			if err := undo(); err != nil {
				p.Log.Error("the approval of a write could not be given back, so it has to be approved again", "err", err)
			}
		}
		refuse(w, errors.New("the store did not answer, or its answer is invalid or too large: see the log"))
		return
	}
	if res.StatusCode/100 != 2 {
		// The text of the store's error may repeat a memory that was not judged, so it is dropped.
		refuse(w, &refusal{res.StatusCode, fmt.Sprintf("the store answers HTTP %d", res.StatusCode), streams.Hold, ""})
		return
	}
	if rt.write != nil && rt.write.reread != "" {
		x.reread(rt, body, parents)
	}
	if body, err = x.judged(rt, body); err != nil {
		refuse(w, err)
		return
	}
	if len(body) > 0 {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(res.StatusCode)
	w.Write(body)
}

// exchange checks a request and reads its body. If the request must be refused, it returns a refusal as the error.
func (p *proxy) exchange(w http.ResponseWriter, r *http.Request, rt *route) (*exchange, error) {
	// After DNS rebinding, a request of a web page has the page's host name in the header Host.
	if r.Header.Get("Origin") != "" || !loopback(r.Host) {
		return nil, &refusal{http.StatusForbidden, "requests of web pages are refused", streams.Hold, ""}
	}
	// The store could read an encoded slash or dot as a part of the path, so that the path is not the one that was
	// matched. It could also decode a percent sign a second time.
	if r.URL.RawPath != "" || strings.ContainsAny(r.URL.Path, `%\`) ||
		strings.TrimSuffix(r.URL.Path, "/") != path.Clean(r.URL.Path) {
		return nil, &refusal{http.StatusForbidden, "paths with encoded slashes or dots are refused", streams.Hold, ""}
	}
	if err := vetHeaders(r.Header); err != nil {
		return nil, err
	}
	if err := vetQuery(r.URL.RawQuery, rt.write != nil); err != nil {
		return nil, err
	}
	x := &exchange{proxy: p, r: r, ctx: r.Context(), origin: p.Origin,
		head: streams.Head{Session: r.Header.Get(HeaderSession), User: r.Header.Get(HeaderUser)}}
	if o := r.Header.Get(HeaderOrigin); o != "" {
		x.origin = beliefs.Origin(o)
	}
	bad := func(format string, args ...any) error {
		return &refusal{http.StatusBadRequest, fmt.Sprintf(format, args...), streams.Hold, ""}
	}
	if !x.origin.Valid() {
		return nil, bad("the header %s is %q, use one of %v", HeaderOrigin, streams.Clip(string(x.origin), 40),
			beliefs.Origins())
	}
	for _, id := range []string{x.head.Session, x.head.User} {
		if id != "" && !streams.ValidID(id) {
			return nil, bad("%s or %s is %q, use 1 to 64 of A-Z a-z 0-9 _ -", HeaderSession, HeaderUser, streams.Clip(id, 80))
		}
	}
	var err error
	if x.body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, MaxRequest)); err != nil {
		return nil, bad("the body has more than %d bytes, or was not received completely", MaxRequest)
	}
	if len(x.body) == 0 {
		return x, nil
	}
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if rt.write != nil && rt.write.form {
		if err != nil || kind != "multipart/form-data" || r.Header.Get("Content-Encoding") != "" {
			return nil, bad("the body is not plain multipart/form-data")
		}
		if err := x.readForm(rt.write.list, params["boundary"]); err != nil {
			return nil, bad("%v", err)
		}
		return x, nil
	}
	if err != nil || kind != "application/json" || r.Header.Get("Content-Encoding") != "" {
		return nil, bad("the body is not plain application/json")
	}
	x.kind = "application/json" // without a charset: UTF-8, as judged
	// If a name is repeated in the body, the proxy and the store could use different values.
	if !jsontext.Value(x.body).IsValid() {
		return nil, bad("the body is malformed JSON, or an object has a duplicate name")
	}
	return x, nil
}

// overriding are headers by which some servers and frameworks take another method or path than that of the request line.
var overriding = text.Set(`x-http-method-override x-http-method x-method-override x-original-method x-original-url
	x-original-uri x-rewrite-url x-forwarded-method x-forwarded-uri x-forwarded-path x-forwarded-prefix`)

// ambiguous are headers that decide how a body or a token is read. With an underscore in its name, such a header is not
// the one that the proxy checks, but some servers read both as the same.
var ambiguous = text.Set(`authorization connection content-encoding content-length content-type host transfer-encoding`)

// vetHeaders returns a refusal if the store could read the headers of a request as those of another request than the
// one that is judged.
func vetHeaders(h http.Header) error {
	for name := range h {
		n := strings.ReplaceAll(strings.ToLower(name), "_", "-")
		if overriding[n] || ambiguous[n] && strings.Contains(name, "_") {
			return &refusal{http.StatusForbidden, fmt.Sprintf("the header %s is refused: the store could carry out another "+
				"request than the one that is judged", streams.Clip(name, 60)), streams.Hold, ""}
		}
	}
	return nil
}

// vetQuery returns a refusal if the query of a request may change the method, or if that of a write has text, which is
// not judged.
func vetQuery(query string, write bool) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return &refusal{http.StatusBadRequest, "the query is malformed", streams.Hold, ""}
	}
	members := make(object)
	for name, list := range values {
		if strings.EqualFold(name, "_method") {
			return &refusal{http.StatusForbidden, "the query has _method: the store could carry out another request than the " +
				"one that is judged", streams.Hold, ""}
		}
		if members[name], err = json.Marshal(list); err != nil {
			return &refusal{http.StatusBadRequest, "the query is not valid UTF-8", streams.Hold, ""}
		}
	}
	if !write {
		return nil
	}
	if odd, err := wordsLeft(members, nil); err != nil || odd != "" {
		return &refusal{http.StatusBadRequest, "the query of a write has text, and only the text of the body is judged",
			streams.Hold, ""}
	}
	return nil
}

// propose proposes each text of a write. If all are allowed, it returns the ids of the beliefs. A write uses up the
// approvals that allow it. If the store has never received the write, the caller must call undo, which makes these
// approvals valid again.
func (x *exchange) propose(wr *write) (parents []string, undo func() error, err error) {
	texts, err := x.written(wr)
	if r := (*refusal)(nil); errors.As(err, &r) {
		return nil, nil, err
	}
	if err != nil {
		return nil, nil, &refusal{http.StatusBadRequest, err.Error(), streams.Hold, ""}
	}
	if wr.bare != "" && !slices.ContainsFunc(texts, func(t written) bool { return t.text != "" }) {
		texts = []written{{text: wr.bare, origin: x.origin}}
	}
	var ms []memgate.Text
	for _, t := range texts {
		if t.text != "" {
			ms = append(ms, memgate.Text{Origin: t.origin, Memory: x.memory(t)})
		}
	}
	if len(ms) == 0 {
		return nil, nil, &refusal{http.StatusBadRequest, errNoText.Error(), streams.Hold, ""}
	}
	replies, undo, err := x.Held.Write(x.ctx, x.Judge, ms, "memproxy", x.Kind, x.r.Method, x.r.URL.RequestURI(),
		string(x.body))
	if err != nil {
		return nil, nil, unjudged(err)
	}
	for _, rep := range replies {
		if rep.Verdict != streams.Allow {
			r := &refusal{http.StatusForbidden, "the write is not allowed: " + memgate.Why(rep), rep.Verdict, ""}
			if client.Open(rep) {
				r.hold = rep.Entry.Hold.ID
				r.reason += "; once hold " + r.hold + " is approved, send the same request again"
			}
			return nil, nil, r
		}
		if rep.Entry != nil && rep.Entry.Belief != nil {
			parents = append(parents, rep.Entry.Belief.ID)
		}
	}
	return parents, undo, nil
}

// written is a text of a write, with its origin, and with the key of the memory that the text replaces.
type written struct {
	text, key string
	origin    beliefs.Origin
}

// written returns the texts of a write. A text may be empty.
func (x *exchange) written(wr *write) ([]written, error) {
	key, err := x.key(wr, "")
	if err != nil {
		return nil, err
	}
	if wr.own && x.origin != beliefs.OriginUser && x.origin != beliefs.OriginSystem {
		return nil, &refusal{http.StatusForbidden, fmt.Sprintf("only the user and the operator may use %s, "+
			"which deletes many memories: the origin is "+
			"%q, set the header %s", x.r.URL.Path, x.origin, HeaderOrigin), streams.Hold, ""}
	}
	if wr.delete {
		return []written{{"(deleted)", key, x.origin}}, nil
	}
	// The text and the rest of a memory become two beliefs. They need different keys. Otherwise the second belief would
	// replace the first.
	restKey, err := x.key(wr, "rest")
	if err != nil {
		return nil, err
	}
	items, _, err := itemsIn(x.body, wr.list, wr.text, nil)
	if err != nil {
		return nil, err
	}
	if len(items) > MaxWritten {
		return nil, fmt.Errorf("the body has %d items, each of which must be judged: write at most %d at a time", len(items),
			MaxWritten)
	}
	var out []written
	for _, it := range items {
		o := it.saidBy(x.Kind, x.origin)
		out = append(out, written{it.text, key, o}, written{it.rest, restKey, o})
	}
	if wr.list != "" {
		rest, err := around(x.body, wr.list)
		if err != nil {
			return nil, err
		}
		out = append(out, written{rest, restKey, x.origin})
	}
	return out, nil
}

// around returns that part of a body that must be judged and is not one of the items.
func around(body jsontext.Value, list string) (string, error) {
	var o object
	if err := json.Unmarshal(body, &o); err != nil {
		return "", err
	}
	delete(o, list)
	return wordsLeft(o, nil)
}

// key returns the key of the memory that a write replaces, or of a part of it. For a new memory, it returns "".
func (x *exchange) key(wr *write, part string) (string, error) {
	if x.r.Method == http.MethodPost && !wr.delete {
		return "", nil
	}
	key := x.Kind + ":"
	if part != "" {
		key += part + ":"
	}
	key += strings.TrimSuffix(x.r.URL.Path, "/")
	var body object
	if len(wr.key) > 0 {
		if err := json.Unmarshal(x.body, &body); err != nil {
			return "", err
		}
	}
	for _, name := range wr.key {
		text, _, err := words(body[name])
		if err != nil {
			return "", err
		}
		switch {
		// in a request with another method than POST, these members always identify the memory
		case x.r.Method != http.MethodPost:
			key += "/" + text
		case text != "":
			key += "/" + name + "=" + text
		}
	}
	// do not cut a long key, because it could become equal to the key of another memory
	if len(key) > streams.MaxNameLen {
		sum := sha256.Sum256([]byte(key))
		key = x.Kind + ":" + hex.EncodeToString(sum[:])
	}
	return key, nil
}

// memory returns the memory write that is proposed for a text. Its source is not the store as a whole. The store has
// texts of many people, and a rule that holds everything from one source would hold all of them. Instead, the external
// writes of a session have one source, and each other memory has a source of its own.
func (x *exchange) memory(t written) *streams.Memory {
	text, key := t.text, t.key
	source := "store:" + key
	if t.origin.External() && x.head.Session != "" {
		source = "store:" + x.Kind + ":" + x.head.Session
	} else if key == "" || len(source) > streams.MaxNameLen {
		sum := sha256.Sum256([]byte(key + "\x00" + text))
		source = "store:" + x.Kind + ":" + hex.EncodeToString(sum[:8])
	}
	return &streams.Memory{Head: x.head, Key: key, Content: text, Source: source}
}

// reread reads the texts that the store has stored after a write. It records them as derived from the texts that were
// written. Without this record, a text that the store has rewritten would count as external when it is found.
func (x *exchange) reread(rt *route, body jsontext.Value, parents []string) {
	items, _, err := itemsIn(body, rt.read.list, rt.read.text, nil)
	if err != nil {
		return // judged refuses this response
	}
	said, _, _ := itemsIn(x.body, rt.write.list, rt.write.text, nil)
	known := map[string]bool{"": true}
	for _, it := range said {
		known[it.text] = true
	}
	// The model of the store wrote this text. So it does not have the origin of the user or the operator.
	o := x.origin
	if o == beliefs.OriginUser || o == beliefs.OriginSystem {
		o = beliefs.OriginAgent
	}
	for _, it := range items {
		// Skip a memory that existed before this write, because a part of its text comes from earlier writes.
		var event string
		if json.Unmarshal(it.all["event"], &event) != nil || event != rt.write.added {
			continue
		}
		var id string
		if json.Unmarshal(it.all["id"], &id) != nil || id == "" || !plain.MatchString(id) || strings.Trim(id, ".") == "" {
			continue
		}
		res, b, err := x.send(http.MethodGet, rt.write.reread+id, "", nil)
		if err == nil && res.StatusCode != http.StatusOK {
			err = fmt.Errorf("status %s", res.Status)
		}
		var now []*item
		if err == nil {
			now, _, err = itemsIn(b, "", rt.read.text, nil)
		}
		if err == nil && len(now) == 1 && !known[now[0].text] {
			known[now[0].text] = true
			m := x.memory(written{now[0].text, x.Kind + ":" + rt.write.reread + id, o})
			m.DerivedFrom = parents
			_, err = x.Judge.Remember(x.ctx, o, m)
		}
		if err != nil {
			x.Log.Warn("a written memory was not read back: it counts as external until it is written "+
				"again", "id", id, "err", err)
		}
	}
}

// judged returns a response without the memories that must not be shown, and with notes in those that are context only.
func (x *exchange) judged(rt *route, body jsontext.Value) ([]byte, error) {
	if rt.read == nil || len(bytes.TrimSpace(body)) == 0 {
		return nil, nil // the request was carried out, and its response has nothing to show
	}
	if !body.IsValid() {
		return nil, errors.New("the store's answer is not JSON")
	}
	if body.Kind() == 'n' {
		return []byte("null"), nil
	}
	asked := x.asked()
	items, isList, err := itemsIn(body, rt.read.list, rt.read.text, asked)
	if err != nil {
		// Do not repeat the error, because it may contain names from the response, which were not judged.
		return nil, fmt.Errorf("the store's answer does not have the known format of %s", x.Kind)
	}
	if len(items) > MaxItems {
		return nil, fmt.Errorf("the store's answer has %d items, each of which must be judged: request at most %d",
			len(items),
			MaxItems)
	}
	var texts []string
	for _, it := range items {
		texts = append(texts, it.text, it.rest)
	}
	found, err := memgate.Read(x.ctx, x.Judge, x.head, "store:"+x.Kind, texts)
	if err != nil {
		return nil, unjudged(err)
	}
	out := []jsontext.Value{}
	for i, it := range items {
		v, err := it.served(found[2*i], found[2*i+1])
		if err != nil {
			return nil, errors.New("a memory in the store's answer could not be encoded")
		}
		if v != nil {
			out = append(out, v)
		}
	}
	switch {
	case isList:
		return json.Marshal(out)
	case rt.read.list == "":
		if len(out) == 0 {
			return nil, &refusal{http.StatusForbidden, "the memory is not shown: " + found[0].Why, streams.Deny, ""}
		}
		return out[0], nil
	}
	return enveloped(body, rt.read.list, out, asked)
}

// enveloped puts items back into the response from which they were taken. Of the other members of the response, it
// keeps only those that need no judgment.
func enveloped(body jsontext.Value, list string, items []jsontext.Value, asked map[string]bool) ([]byte, error) {
	var o object
	if err := json.Unmarshal(body, &o); err != nil {
		return nil, err
	}
	delete(o, list)
	odd, err := wordsLeft(o, asked)
	if err != nil {
		return nil, err
	}
	if odd != "" {
		var out object
		if err := json.Unmarshal([]byte(odd), &out); err != nil {
			return nil, err
		}
		for name := range out {
			delete(o, name)
		}
	}
	if o[list], err = json.Marshal(items); err != nil {
		return nil, err
	}
	return json.Marshal(o, json.Deterministic(true))
}

// send sends a request to the store and reads the whole response.
func (x *exchange) send(method, at, query string, body []byte) (*http.Response, jsontext.Value, error) {
	u := x.Upstream.JoinPath(at)
	u.RawQuery = query
	ctx := httptrace.WithClientTrace(x.ctx, &httptrace.ClientTrace{WroteHeaders: func() { x.reached.Store(true) }})
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	for name, v := range x.r.Header {
		switch name {
		case HeaderOrigin, HeaderSession, HeaderUser, "Accept-Encoding", "Connection", "Content-Length", "Te", "Trailer",
			"Transfer-Encoding", "Upgrade", "Expect":
		default:
			req.Header[name] = v
		}
	}
	if len(body) > 0 {
		req.Header.Set("Content-Type", x.kind)
	}
	// the store must not answer with an event stream, because a response is judged as a whole
	req.Header.Set("Accept", "application/json")
	res, err := x.http.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, MaxAnswer+1))
	if err == nil && len(b) > MaxAnswer {
		err = fmt.Errorf("its answer has more than %d bytes", MaxAnswer)
	}
	return res, b, err
}

// loopback reports whether a Host header names this machine, by its name or a loopback address.
func loopback(host string) bool {
	name := (&url.URL{Host: host}).Hostname()
	ip := net.ParseIP(name)
	return strings.EqualFold(name, "localhost") || ip != nil && ip.IsLoopback()
}
