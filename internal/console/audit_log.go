package console

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"lazaret/internal/auditor"
	"lazaret/internal/query"
	"lazaret/pkg/chain"
	"lazaret/pkg/keys"
	"lazaret/pkg/position"
	"lazaret/streams"
)

// maxLeaves is the number of leaves that the page lists, from the end of the log.
const maxLeaves = 25

type logView struct {
	Head    *logHead
	Leaves  []auditor.Leaf // leaves of the projects that the user may see, latest first
	Project string
	Entry   string
	Proof   *proven
	Why     string   // why there is no proof
	Keys    []string // pinned keys of the log
	Kept    string   // an earlier checkpoint, to be compared with the log's head
	Heads   *heads
	WhyNot  string // why the heads cannot be compared
}

// heads has two checkpoints of the log. It also has the hashes with which a browser can verify that the log of the
// second one extends that of the first.
type heads struct {
	Kept, Now string
	Path      []string // base64
	Agree     bool     // result of the check in this program
}

// proven is a verified proof.
type proven struct {
	Leaf      auditor.Leaf
	Size      int64
	Origin    string
	Signers   []string
	File, URL string
	Text      string // the proof itself
}

func (c *Console) logPage(r *http.Request, p *page) (string, error) {
	q := r.URL.Query()
	v := &logView{Project: q.Get("project"), Entry: strings.TrimSpace(q.Get("entry"))}
	p.Title, p.Nav, p.Data = "Log", "log", v
	var err error
	if v.Head, err = c.logHead(r.Context()); err != nil {
		return "", err
	}
	var ans auditor.Answer
	req := auditor.Request{Do: "list", From: max(0, v.Head.Size-4*maxLeaves), To: v.Head.Size}
	if err := query.Ask(r.Context(), c.cfg.Conn, auditor.AskAudit, 0, req, &ans); err != nil {
		return "", err
	}
	for i := len(ans.Leaves) - 1; i >= 0 && len(v.Leaves) < maxLeaves; i-- {
		if l := ans.Leaves[i]; l.Project == "" || p.User.May(l.Project) {
			v.Leaves = append(v.Leaves, l)
		}
	}
	trust, err := keys.LoadTrust(filepath.Join(c.cfg.Data, keys.TrustFile))
	if err != nil {
		return "", err
	}
	for _, k := range trust.Pins() {
		if slices.Contains(k.Roles, keys.RoleAuditor) {
			v.Keys = append(v.Keys, k.Key)
		}
	}
	if v.Kept = q.Get("kept"); v.Kept != "" {
		if v.Heads, err = c.compareHeads(r.Context(), trust, v.Kept); err != nil {
			v.WhyNot = err.Error()
		}
	}
	if v.Entry == "" {
		return "log", nil
	}
	text, err := c.prove(r.Context(), p.User, v.Project, v.Entry)
	if err == nil {
		v.Proof, err = c.check(text)
	}
	if err != nil {
		v.Why = err.Error()
		return "log", nil
	}
	v.Proof.Text = text
	v.Proof.URL = "/log/proof?" + r.URL.RawQuery
	v.Proof.File = fmt.Sprintf("%d.tlog-proof", v.Proof.Leaf.Index)
	return "log", nil
}

// compareHeads returns a proof that the log's head extends the log of an earlier checkpoint, kept.
func (c *Console) compareHeads(ctx context.Context, trust *keys.Trust, kept string) (*heads, error) {
	kept = strings.TrimRight(strings.ReplaceAll(kept, "\r\n", "\n"), "\n") + "\n"
	vs := trust.Verifiers(keys.RoleAuditor)
	old, err := chain.OpenCheckpoint([]byte(kept), vs)
	if err != nil {
		return nil, fmt.Errorf("the kept checkpoint: %w", err)
	}
	view, err := chain.NewView(ctx, auditor.Remote{Conn: c.cfg.Conn}, vs)
	if err != nil {
		return nil, err
	}
	h := &heads{Kept: kept, Now: string(view.Note)}
	if _, err := view.Consistent(old); err == nil {
		h.Agree = true
	} else if old.Origin != view.Origin || old.Size > view.Size {
		return nil, err
	}
	if old.Size == 0 {
		return h, nil
	}
	path, err := tlog.ProveTree(view.Size, old.Size, view.Hashes())
	if err != nil {
		return nil, err
	}
	for _, x := range path {
		h.Path = append(h.Path, base64.StdEncoding.EncodeToString(x[:]))
	}
	return h, nil
}

// prove asks the auditor for the proof of an entry. entry is a ledger position, or an event as AGENT/ID.
func (c *Console) prove(ctx context.Context, u *User, project, entry string) (string, error) {
	if streams.CheckID("project", project) != nil || !u.May(project) {
		return "", fmt.Errorf("there is no project %s that you may see", project)
	}
	req, agent := streams.ProveRequest{}, "console"
	if seq, err := position.Parse(entry); err == nil {
		req.Seq = seq
	} else {
		var ok bool
		if agent, req.ID, ok = strings.Cut(entry, "/"); !ok {
			return "", fmt.Errorf("name a ledger entry by its number, or an event as AGENT/ID")
		}
	}
	if err := req.Check(); err != nil {
		return "", err
	}
	subject, err := streams.ServiceSubject(streams.SvcProve, project, agent, "")
	if err != nil {
		return "", err
	}
	body, err := streams.Marshal(req)
	if err != nil {
		return "", err
	}
	m, err := c.cfg.Conn.RequestWithContext(ctx, subject, body)
	if err != nil {
		return "", fmt.Errorf("asking the auditor: %w", err)
	}
	rep := new(streams.ProveReply)
	if err := streams.Unmarshal(m.Data, rep); err != nil {
		return "", err
	}
	if rep.Error != nil {
		return "", fmt.Errorf("%s: %s", rep.Error.Code, rep.Error.Message)
	}
	return rep.Proof, nil
}

// check verifies a proof with the pinned keys and returns its content.
func (c *Console) check(text string) (*proven, error) {
	trust, err := keys.LoadTrust(filepath.Join(c.cfg.Data, keys.TrustFile))
	if err != nil {
		return nil, err
	}
	proof, err := chain.CheckProof([]byte(text), trust.Verifiers(keys.RoleAuditor), nil)
	if err != nil {
		return nil, err
	}
	cp, err := chain.ParseCheckpoint(proof.Checkpoint)
	if err != nil {
		return nil, err
	}
	return &proven{Leaf: auditor.NewLeaf(&proof.Leaf), Size: cp.Size, Origin: cp.Origin}, nil
}

// proofFile sends a proof as a download.
func (c *Console) proofFile(w http.ResponseWriter, r *http.Request) {
	u := c.user(r)
	if u == nil {
		c.fail(w, r, http.StatusUnauthorized, "Sign in", "Open the login link that the terminal printed.")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), askTime)
	defer cancel()
	text, err := c.prove(ctx, u, r.URL.Query().Get("project"), strings.TrimSpace(r.URL.Query().Get("entry")))
	if err != nil {
		c.fail(w, r, http.StatusNotFound, "There is no proof", err.Error())
		return
	}
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTime))
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="entry.tlog-proof"`)
	w.Write([]byte(text))
}
