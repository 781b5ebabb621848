package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"lazaret/client"
	"lazaret/internal/token"
	"lazaret/streams"
)

// call is a request whose token is valid and which is within its limits.
type call struct {
	r     *http.Request
	ctx   context.Context // carries the request's traceparent
	g     *Gateway
	d     *login
	s     *session
	users *limiter
	leave func() // ends the call's count as a concurrent request; safe to call twice

	body []byte
	kind string // media type of the body, lower case
	wait time.Duration
	find func() bool // reports whether the token is still valid
}

// handler returns the handler of all paths.
func (g *Gateway) handler() http.Handler {
	mux := http.NewServeMux()
	for _, e := range endpoints {
		mux.HandleFunc(e.Method+" "+e.Path, func(w http.ResponseWriter, r *http.Request) { g.serve(w, r, &e) })
	}
	mux.HandleFunc("GET /v1/openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTime))
		doc, err := openAPI()
		if err != nil { // cannot happen: a test builds the document
			p := problem(streams.CodeUnavailable, "the OpenAPI document cannot be made: %v", err)
			status(http.StatusInternalServerError, p).write(w)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write(doc)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		var allow []string
		for _, m := range []string{http.MethodGet, http.MethodPost} {
			try := r.Clone(r.Context())
			try.Method = m
			if _, pattern := mux.Handler(try); pattern != "/" {
				allow = append(allow, m)
			}
		}
		p := problem(streams.CodeNotHere, "there is nothing at %s", streams.Clip(strconv.Quote(r.URL.Path), 200))
		if allow != nil {
			p = status(http.StatusMethodNotAllowed, problem(streams.CodeRequest, "the method is %s, use %s",
				streams.Clip(r.Method, 20), strings.Join(allow, " or ")))
			p.allow = strings.Join(allow, ", ")
		}
		p.write(w)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The deadline also covers bodies that no handler reads: the server drains them.
		http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime))
		mux.ServeHTTP(w, r)
	})
}

func (g *Gateway) serve(w http.ResponseWriter, r *http.Request, e *endpoint) {
	if r.Method != e.Method { // HEAD, which the mux routes as GET
		p := status(http.StatusMethodNotAllowed, problem(streams.CodeRequest, "the method is %s, use %s", r.Method, e.Method))
		p.allow = e.Method
		p.write(w)
		return
	}
	c, err := g.admit(r)
	if err != nil {
		e.fail(w, err)
		return
	}
	defer c.leave()
	if err := c.read(w, e); err != nil {
		e.fail(w, err)
		return
	}
	if e.feed != nil {
		if err := c.feed(w, e); err != nil {
			problemOf(c.explained(err)).write(w)
		}
		return
	}
	if c.s.client == nil {
		e.fail(w, problem(streams.CodeForbidden, "the token belongs to the role %s, but this path needs a token of an agent",
			c.d.name))
		return
	}
	body, err := e.answer(c)
	if err != nil {
		e.fail(w, c.explained(err))
		return
	}
	if rep, ok := body.(*client.Reply); ok {
		w.Header().Set("Lazaret-Verdict", rep.Verdict.String())
	}
	if b, ok := body.(*encoded); ok {
		answerBytes(w, http.StatusOK, b.kind, b.body)
		return
	}
	answer(w, http.StatusOK, "application/json", body)
}

// explained returns the actual cause of a request's error. If the NATS server refuses the credential during the
// request, the request ends with an error that looks like an outage or a time-out. explained then returns the
// refusal in its place.
func (c *call) explained(err error) error {
	p := problemOf(err)
	if c.s.refused.Load() && (p.Code == streams.CodeUnavailable || p.Code == streams.CodeTimeout) {
		q := c.d.refusal()
		q.Events = p.Events
		return q
	}
	return err
}

// fail writes err as a problem. If the endpoint has stop, fail writes the body that stop returns
// instead.
func (e *endpoint) fail(w http.ResponseWriter, err error) {
	if e.stop != nil {
		answer(w, http.StatusOK, "application/json", e.stop(err))
		return
	}
	problemOf(err).write(w)
}

// admit checks the token and its limit of concurrent requests, and connects with the token's credential.
func (g *Gateway) admit(r *http.Request) (*call, error) {
	secret, err := bearer(r.Header)
	if err != nil {
		return nil, err
	}
	t, err := g.tokens.Find(secret)
	if errors.Is(err, token.ErrUnknown) {
		return nil, problem(streams.CodeToken, "%v", err)
	}
	if err != nil {
		g.cfg.Log.Error("tokens cannot be checked", "err", err)
		return nil, problem(streams.CodeUnavailable, "tokens cannot be checked")
	}
	users := g.limits(t.ID)
	leave, ok := enter(users.asking)
	if !ok {
		return nil, tooMany(MaxInFlight, "are being answered")
	}
	d := g.login(t.Credential)
	s, err := d.open()
	if err != nil {
		leave()
		return nil, err
	}
	trace := ""
	if v := r.Header.Values(streams.HeaderTraceparent); len(v) == 1 {
		trace = v[0]
	}
	return &call{r: r, ctx: client.WithTraceparent(r.Context(), trace), g: g, d: d, s: s, users: users, leave: leave,
		find: func() bool { _, err := g.tokens.Find(secret); return err == nil }}, nil
}

func tooMany(n int, what string) *Problem {
	return status(http.StatusTooManyRequests, problem(streams.CodeShedding, "%d requests of this token %s already", n,
		what))
}

func bearer(h http.Header) (string, error) {
	v := h.Values("Authorization")
	if len(v) != 1 {
		return "", problem(streams.CodeToken, "send one header Authorization: Bearer TOKEN")
	}
	scheme, secret, _ := strings.Cut(v[0], " ")
	if !strings.EqualFold(scheme, "Bearer") || secret == "" {
		return "", problem(streams.CodeToken, "the header Authorization is not Bearer TOKEN")
	}
	return strings.TrimSpace(secret), nil
}

// read parses the query parameters and reads the body of a request.
func (c *call) read(w http.ResponseWriter, e *endpoint) error {
	q, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return problem(streams.CodeRequest, "the query is malformed: %v", err)
	}
	for name, v := range q {
		if !slices.ContainsFunc(e.Query, func(p param) bool { return p.Name == name }) || len(v) != 1 {
			return problem(streams.CodeRequest, "unknown or repeated query parameter %q", streams.Clip(name, 80))
		}
	}
	if c.wait, err = duration(q.Get("wait")); err != nil {
		return err
	}
	if c.r.Method != http.MethodPost {
		if c.r.ContentLength != 0 {
			w.Header().Set("Connection", "close") // the body stays unread
			return problem(streams.CodeRequest, "a %s has no body", c.r.Method)
		}
		http.NewResponseController(w).SetReadDeadline(time.Time{}) // the reply may take longer than the body
		return nil
	}
	enc := c.r.Header.Get("Content-Encoding")
	if enc != "" && enc != "identity" && (enc != "gzip" || !e.OTLP) {
		return status(http.StatusUnsupportedMediaType,
			problem(streams.CodeRequest, "the body has content encoding %q: send it without", streams.Clip(enc, 40)))
	}
	kind, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if c.kind = kind; err != nil || !e.takes(kind, c.r.Header) {
		return status(http.StatusUnsupportedMediaType,
			problem(streams.CodeRequest, "the content type is %q, send application/json",
				streams.Clip(c.r.Header.Get("Content-Type"), 80)))
	}
	most := int64(MaxBody)
	switch {
	case kind == typeBatch:
		most = MaxBatch
	case e.stop != nil:
		most = MaxHook
	}
	if c.body, err = io.ReadAll(http.MaxBytesReader(w, c.r.Body, most)); err != nil {
		var big *http.MaxBytesError
		if errors.As(err, &big) {
			return err
		}
		return status(http.StatusRequestTimeout, problem(streams.CodeRequest, "the body was not received "+
			"completely within %v",
			bodyTime))
	}
	http.NewResponseController(w).SetReadDeadline(time.Time{})
	if enc == "gzip" {
		c.body, err = inflated(c.body)
	}
	return err
}

// duration parses a wait such as 30s, or a bare number of seconds.
func duration(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if n, nerr := strconv.Atoi(s); nerr == nil && n <= int(MaxWait/time.Second) {
		d, err = time.Duration(n)*time.Second, nil
	}
	if err != nil || d < 0 || d > MaxWait {
		return 0, problem(streams.CodeRequest, "wait is %q, use seconds or a duration up to %v", streams.Clip(s, 40), MaxWait)
	}
	return d, nil
}

// decode parses the body as JSON.
func (c *call) decode(v any) error {
	if string(bytes.TrimSpace(c.body)) == "null" {
		return problem(streams.CodeInvalid, "the body is null: send a JSON object")
	}
	return decode(c.body, v)
}

func decode(body []byte, v any) error {
	if err := streams.UnmarshalExact(body, v); err != nil {
		return problem(streams.CodeMalformed, "the body does not match the schema of this path: "+
			"%s", streams.DescribeJSON(err))
	}
	return nil
}
