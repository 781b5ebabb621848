package witness

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"lazaret/pkg/chain"
)

// Client asks the witnesses of a policy for cosignatures. It is safe for concurrent use.
type Client struct {
	HTTP *http.Client // nil: a client with a timeout of 10 s

	mu   sync.Mutex
	seen map[string]int64 // by URL: size of the last tree that each witness cosigned; guarded by mu
}

// A Prover returns proofs that a log's tree extends an earlier tree of the log. *chain.Log implements it.
type Prover interface {
	ProveConsistency(old, size int64) (tlog.TreeProof, error)
}

// Cosign concurrently asks each witness of the policy that has a URL to cosign a checkpoint. It returns the checkpoint
// with the cosignatures that it received. If some witnesses did not cosign, the error lists them, and the returned
// checkpoint is still valid.
func (c *Client) Cosign(ctx context.Context, p *Policy, log Prover, checkpoint []byte) ([]byte, error) {
	cp, err := chain.ParseCheckpoint(checkpoint)
	if err != nil {
		return nil, err
	}
	have := p.Cosigned(checkpoint)
	type answer struct {
		line []byte
		err  error
	}
	answers := make([]answer, len(p.Witnesses))
	var wg sync.WaitGroup
	for i, w := range p.Witnesses {
		if w.URL == "" || slices.Contains(have, w.Name) {
			continue
		}
		wg.Go(func() {
			line, err := c.ask(ctx, w, log, cp)
			if err != nil {
				err = fmt.Errorf("witness %s: %w", w.Name, err)
			}
			answers[i] = answer{line, err}
		})
	}
	wg.Wait()
	out := bytes.Clone(checkpoint)
	var errs []error
	for _, a := range answers {
		out = append(out, a.line...)
		errs = append(errs, a.err)
	}
	return out, errors.Join(errs...)
}

// ErrForked reports that a witness has cosigned a tree that this log does not extend.
var ErrForked = errors.New("it has cosigned a tree that this log's tree does not extend")

// ask asks one witness for a cosignature. It first assumes that the witness last cosigned the size in seen.
func (c *Client) ask(ctx context.Context, w Witness, log Prover, cp chain.Checkpoint) ([]byte, error) {
	c.mu.Lock()
	old := min(c.seen[w.URL], cp.Size)
	c.mu.Unlock()
	for range 3 { // ask again if another process submitted a checkpoint in between
		line, size, err := c.post(ctx, w, log, cp, old)
		switch {
		case err != nil:
			return nil, err
		case line != nil:
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.seen == nil {
				c.seen = make(map[string]int64)
			}
			c.seen[w.URL] = cp.Size
			return line, nil
		case size > cp.Size:
			return nil, fmt.Errorf("it has cosigned size %d already, this checkpoint is of size %d", size, cp.Size)
		case size == old:
			return nil, ErrForked
		}
		old = size
	}
	return nil, errors.New("the size of its last cosigned checkpoint keeps changing")
}

// post makes one request to a witness. It returns the cosignature. If the witness last cosigned another size than old,
// post returns that size.
func (c *Client) post(ctx context.Context, w Witness, log Prover, cp chain.Checkpoint, old int64) (line []byte,
	size int64, err error) {
	var proof tlog.TreeProof
	if old > 0 && old < cp.Size {
		if proof, err = log.ProveConsistency(old, cp.Size); err != nil {
			return nil, 0, err
		}
	}
	var body bytes.Buffer
	fmt.Fprintf(&body, "old %d\n", old)
	for _, h := range proof {
		fmt.Fprintln(&body, base64.StdEncoding.EncodeToString(h[:]))
	}
	body.WriteByte('\n')
	body.Write(cp.Note)
	u, err := url.Parse(w.URL)
	if err != nil {
		return nil, 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.JoinPath("add-checkpoint").String(), &body)
	if err != nil {
		return nil, 0, err
	}
	hc := c.HTTP
	if hc == nil {
		hc = defaultClient
	}
	res, err := hc.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxRequest))
	if err != nil {
		return nil, 0, err
	}
	switch res.StatusCode {
	case http.StatusOK:
		line, err := cosignature(cp.Note, b, w.Key)
		return line, 0, err
	case http.StatusConflict:
		size, err := strconv.ParseInt(strings.TrimSuffix(string(b), "\n"), 10, 64)
		if err != nil || size < 0 {
			return nil, 0, ErrForked
		}
		return nil, size, nil
	case http.StatusUnprocessableEntity:
		return nil, 0, ErrForked
	}
	return nil, 0, fmt.Errorf("%s: %s", res.Status, strings.TrimSpace(string(b[:min(len(b), 200)])))
}

var defaultClient = &http.Client{Timeout: 10 * time.Second}

// cosignature finds the line of a witness's key in the witness's answer, and verifies it for checkpoint cp.
func cosignature(cp, answer []byte, key note.Verifier) ([]byte, error) {
	for l := range bytes.Lines(answer) {
		name, b64, ok := strings.Cut(strings.TrimPrefix(strings.TrimSuffix(string(l), "\n"), "— "), " ")
		sig, err := base64.StdEncoding.Strict().DecodeString(b64)
		if !ok || err != nil || len(sig) < 5 || name != key.Name() || binary.BigEndian.Uint32(sig) != key.KeyHash() {
			continue
		}
		line := append(bytes.TrimSuffix(bytes.Clone(l), []byte("\n")), '\n')
		n, err := note.Open(append(bytes.Clone(cp), line...), note.VerifierList(key))
		if err != nil || len(n.Sigs) != 1 {
			return nil, fmt.Errorf("its cosignature is wrong: %v", err)
		}
		return line, nil
	}
	return nil, errors.New("its answer has no cosignature of its key")
}
