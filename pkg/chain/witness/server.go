package witness

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	fnote "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"lazaret/pkg/chain"
	"lazaret/pkg/files"
)

// Server is a witness. It is an http.Handler for POST add-checkpoint (C2SP tlog-witness), below the
// path that it is mounted at.
type Server struct {
	signer *fnote.Signer
	logs   map[string][]note.Verifier // by origin

	mu  sync.Mutex // serializes updates, so that no update comes between comparing and replacing the stored checkpoint
	dir string
}

// maxRequest is the maximum size of a request, in bytes: 63 hashes and a checkpoint with
// signatures.
const maxRequest = 64 << 10

// emptyRoot is the root of the tree of size 0 (RFC 6962).
var emptyRoot = tlog.Hash(sha256.Sum256(nil))

// maxProof is the maximum number of hashes in a consistency proof.
const maxProof = 63

// NewServer returns a witness that cosigns with key, a private key in the text format of signed notes. logs are the
// public keys of the logs that the witness cosigns. The name of such a key must be the log's origin. dir stores the
// last checkpoints, one file per log. The folder must persist: a witness that lost it would cosign a rewritten log.
func NewServer(key, dir string, logs []note.Verifier) (*Server, error) {
	signer, err := fnote.NewSignerForCosignatureV1(key)
	if err != nil {
		return nil, fmt.Errorf("reading the witness's key: %w", err)
	}
	if len(logs) == 0 {
		return nil, errors.New("a witness needs the key of at least one log")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the witness's folder: %w", err)
	}
	s := &Server{signer: signer, dir: dir, logs: make(map[string][]note.Verifier)}
	for _, v := range logs {
		s.logs[v.Name()] = append(s.logs[v.Name()], v)
	}
	return s, nil
}

// CosignerKey converts a plain Ed25519 public key to the form for cosigners, which policies need.
func CosignerKey(vkey string) (string, error) { return fnote.VKeyToCosignatureV1(vkey) }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/add-checkpoint" {
		http.NotFound(w, r)
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "POST it", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		http.Error(w, "the request cannot be read", http.StatusBadRequest)
		return
	}
	sig, err := s.Add(body)
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		if refused.code == http.StatusConflict && refused.size >= 0 {
			w.Header().Set("Content-Type", "text/x.tlog.size")
			w.WriteHeader(refused.code)
			fmt.Fprintf(w, "%d\n", refused.size)
			return
		}
		http.Error(w, refused.Error(), refused.code)
	case err != nil:
		http.Error(w, "the witness cannot store the checkpoint", http.StatusInternalServerError)
	default:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write(sig) // the client may have disconnected
	}
}

// refusal is the reason why a witness does not cosign.
type refusal struct {
	code int
	size int64 // size of the last checkpoint that the witness cosigned, if the status is StatusConflict
	text string
}

func (r *refusal) Error() string { return r.text }

func refuse(code int, format string, args ...any) error {
	return &refusal{code: code, size: -1, text: fmt.Sprintf(format, args...)}
}

// Add handles the body of an add-checkpoint request. It returns the signature line of the witness's cosignature.
func (s *Server) Add(body []byte) ([]byte, error) {
	old, proof, msg, err := parseRequest(body)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "%v", err)
	}
	cp, err := chain.ParseCheckpoint(msg)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "the checkpoint: %v", err)
	}
	keys, ok := s.logs[cp.Origin]
	if !ok {
		return nil, refuse(http.StatusNotFound, "the log %q is not known here", cp.Origin)
	}
	n, err := note.Open(msg, note.VerifierList(keys...))
	if err != nil {
		return nil, refuse(http.StatusForbidden, "the checkpoint is not signed by the log's key")
	}
	if cp, err = chain.OpenCheckpoint(msg, note.VerifierList(keys...)); err != nil {
		return nil, refuse(http.StatusBadRequest, "the checkpoint: %v", err)
	}
	if old > cp.Size {
		return nil, refuse(http.StatusBadRequest, "the old size %d is above the checkpoint's %d", old, cp.Size)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	last, err := s.last(cp.Origin)
	if err != nil {
		return nil, err
	}
	if old != last.Size {
		return nil, &refusal{code: http.StatusConflict, size: last.Size, text: "the last cosigned size is different"}
	}
	if cp.Size == 0 && cp.Root != emptyRoot {
		return nil, refuse(http.StatusUnprocessableEntity, "the checkpoint has size 0, but not the root of the empty tree")
	}
	switch {
	case old == 0:
		if len(proof) > 0 {
			return nil, refuse(http.StatusBadRequest, "the proof must be empty if the old size is 0")
		}
	case old == cp.Size:
		if cp.Root != last.Root {
			return nil, &refusal{code: http.StatusConflict, size: last.Size, text: "a different tree of this size was " +
				"cosigned before"}
		}
		if len(proof) > 0 {
			return nil, refuse(http.StatusUnprocessableEntity, "the proof must be empty if the sizes are equal")
		}
	default:
		if err := tlog.CheckTree(proof, cp.Size, cp.Root, old, last.Root); err != nil {
			return nil, refuse(http.StatusUnprocessableEntity, "the checkpoint of size %d does not extend the one of size %d",
				cp.Size, old)
		}
	}
	// Store and cosign only the log's own signature, and drop other signatures in the request.
	own, err := note.Sign(&note.Note{Text: n.Text, Sigs: n.Sigs}, s.signer)
	if err != nil {
		return nil, err
	}
	if err := s.keep(cp.Origin, own); err != nil {
		return nil, err
	}
	lines := bytes.SplitAfter(bytes.TrimSuffix(own, []byte("\n")), []byte("\n"))
	return append(bytes.TrimSuffix(lines[len(lines)-1], []byte("\n")), '\n'), nil
}

// file returns the name of the file with the last checkpoint of a log.
func (s *Server) file(origin string) string {
	return filepath.Join(s.dir, base64.RawURLEncoding.EncodeToString([]byte(origin)))
}

// last returns the last checkpoint of the log that the witness cosigned. If there is none, it returns a checkpoint of
// size 0.
func (s *Server) last(origin string) (chain.Checkpoint, error) {
	b, err := os.ReadFile(s.file(origin))
	if errors.Is(err, os.ErrNotExist) {
		return chain.Checkpoint{}, nil
	}
	if err != nil {
		return chain.Checkpoint{}, err
	}
	// Return an error for a damaged file. If it counted as missing, the witness would cosign any tree.
	cp, err := chain.OpenCheckpoint(b, note.VerifierList(s.signer.Verifier()))
	if err != nil {
		return cp, fmt.Errorf("the last cosigned checkpoint of %q cannot be read: %w", origin, err)
	}
	return cp, nil
}

func (s *Server) keep(origin string, cp []byte) error {
	return files.Write(s.file(origin), cp, 0o600)
}

// parseRequest parses an add-checkpoint request.
func parseRequest(b []byte) (old int64, proof tlog.TreeProof, cp []byte, err error) {
	line, rest, ok := bytes.Cut(b, []byte("\n"))
	size, isOld := strings.CutPrefix(string(line), "old ")
	if !ok || !isOld {
		return 0, nil, nil, errors.New("the first line must be: old <size>")
	}
	if old, err = strconv.ParseInt(size, 10, 64); err != nil || old < 0 || strconv.FormatInt(old, 10) != size {
		return 0, nil, nil, fmt.Errorf("%q is not the size of a tree", size)
	}
	for {
		line, rest, ok = bytes.Cut(rest, []byte("\n"))
		if !ok {
			return 0, nil, nil, errors.New("there is no empty line before the checkpoint")
		}
		if len(line) == 0 {
			return old, proof, rest, nil
		}
		h, err := base64.StdEncoding.Strict().DecodeString(string(line))
		if err != nil || len(h) != tlog.HashSize {
			return 0, nil, nil, fmt.Errorf("line %d of the proof is not a hash in base64", len(proof)+1)
		}
		if len(proof) == maxProof {
			return 0, nil, nil, fmt.Errorf("the proof has more than %d hashes", maxProof)
		}
		proof = append(proof, tlog.Hash(h))
	}
}
