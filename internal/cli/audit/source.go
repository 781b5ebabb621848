package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lazaret/internal/auditor"
	"lazaret/internal/cli"
	"lazaret/internal/cli/verb"
	"lazaret/internal/datafolder"
	"lazaret/pkg/chain"
	"lazaret/pkg/position"
)

// source is a log that is read from a folder, over HTTP, or from a running auditor.
type source struct {
	chain.Source
	// If payloads can be read too, log or remote is set.
	log    *chain.Log
	remote *auditor.Remote
	close  func()
}

// openSource opens the log at a URL or in a folder. An empty name means the data folder's log. If an auditor
// has locked that log, openSource reads it through the auditor.
func openSource(a *verb.App, name string) (*source, error) {
	if strings.HasPrefix(name, "http://") || strings.HasPrefix(name, "https://") {
		src, err := chain.NewClient(name, nil)
		return &source{Source: src, close: func() {}}, err
	}
	a.Conn.Resolve()
	dir := cmp.Or(name, datafolder.AuditDir(a.Conn.Data))
	_, err := os.Stat(dir)
	if err == nil {
		master, merr := datafolder.ReadMasterKey(a.Conn.Data)
		if merr != nil {
			return nil, merr
		}
		var l *chain.Log
		if l, err = chain.Open(dir, chain.Options{MasterKey: master, ReadOnly: true}); err == nil {
			return &source{Source: l.Source(), log: l, close: func() { l.Close() }}, nil
		}
	}
	if name != "" || !errors.Is(err, chain.ErrLocked) && !errors.Is(err, os.ErrNotExist) {
		return nil, locked(err, "stop that process, or give the URL of its lazaret audit serve; without a folder "+
			"argument, the auditor of the data folder is asked")
	}
	nc, cerr := a.Conn.Connect("operator")
	if cerr != nil {
		return nil, fmt.Errorf("%w, and its auditor cannot be asked: %w", err, cerr)
	}
	r := &auditor.Remote{Conn: nc}
	return &source{Source: r, remote: r, close: nc.Close}, nil
}

// locked adds to the error of a locked log what the user can do.
func locked(err error, do string) error {
	if errors.Is(err, chain.ErrLocked) {
		return fmt.Errorf("%w, probably an auditor: %s", err, do)
	}
	return err
}

// salted returns the salt and payload of a leaf.
func (s *source) salted(ctx context.Context, i int64) ([16]byte, []byte, error) {
	switch {
	case s.log != nil:
		return s.log.Salted(i)
	case s.remote != nil:
		return s.remote.Salted(ctx, i)
	}
	return [16]byte{}, nil, errors.New("tiles have no payloads: ask the auditor, or name the log's folder with --dir")
}

// find returns the index of a leaf.
func (s *source) find(ctx context.Context, n *named) (int64, error) {
	switch {
	case n.index >= 0:
		return n.index, nil
	case s.log != nil && n.id == "":
		return s.log.FindSeq(n.at)
	case s.log != nil:
		return auditor.FindEvent(ctx, s.log, n.id)
	case s.remote != nil:
		ans, err := s.remote.Ask(ctx, auditor.Request{Do: "find", ID: n.id, Seq: n.at})
		if err != nil {
			return 0, err
		}
		return ans.Leaf, nil
	}
	return 0, errors.New("tiles have no event ids and cannot be searched for a ledger entry: give the leaf's index")
}

// named names an entry of the log: by the index of its leaf, by the id of its event, or by its position in the
// ledger.
type named struct {
	index int64 // -1 if id or at names the entry
	id    string
	at    uint64
}

// name reads the argument of a command, or its flag --seq. An argument that is a number is an index. If the number is
// larger than any index can be, it is a position in the form that JSON has. An argument with a dot is a position.
func name(arg, seq string) (*named, error) {
	n := &named{index: -1}
	i, err := strconv.ParseInt(arg, 10, 64)
	switch {
	case arg != "" && seq != "":
		return nil, errors.New("name the entry by an argument or by --seq, not by both")
	case seq != "":
		if n.at, err = position.Parse(seq); err != nil {
			return nil, fmt.Errorf("--seq: %w", err)
		}
	case err == nil && i >= 0 && i < 1<<position.Bits:
		n.index = i
	case err == nil, strings.Contains(arg, "."):
		if n.at, err = position.Parse(arg); err != nil {
			return nil, err
		}
	default:
		n.id = arg
	}
	if n.index < 0 && n.id == "" && n.at == 0 && arg+seq != "" {
		return nil, fmt.Errorf("there is no ledger entry %s: the first one is 1", arg+seq)
	}
	return n, nil
}

func init() { Verbs.Add("audit", serveCommand, compareCommand) }

func serveCommand(a *verb.App) *cobra.Command {
	var dir, listen string
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve checkpoint, tiles and leaves over HTTP (C2SP tlog-tiles), read-only",
		Long: `Serve the log in the layout of C2SP tlog-tiles, so that other tools can follow and
verify it: GET /checkpoint, /tile/<L>/<N>[.p/<W>] and /tile/entries/<N>[.p/<W>].
Leaves contain types, projects, times and salted commitments, never payloads. They come
from the running auditor, or from the files if no auditor runs.

Access is not restricted: if project names are confidential, use a proxy that restricts
it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			src, err := openSource(a, dir)
			if err != nil {
				return err
			}
			defer src.close()
			return serveHTTP(cmd, listen, "the log", chain.NewHandler(src))
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "folder of the `LOG` (default DATA/audit)")
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:8780", "`ADDRESS` to listen on")
	return c
}

// serveHTTP serves until the command's context ends.
func serveHTTP(cmd *cobra.Command, listen, what string, h http.Handler) error {
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second,
		WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute}
	fmt.Fprintf(cmd.OutOrStdout(), "%s is served at http://%s/\n", what, ln.Addr())
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	select {
	case err := <-done:
		return err
	case <-cmd.Context().Done():
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return srv.Shutdown(ctx)
}

// comparison is the result of `audit compare`.
type comparison struct {
	SizeA int64  `json:"size_a"`
	SizeB int64  `json:"size_b"`
	Equal int64  `json:"equal"` // number of leaves at the start that are the same in both logs
	First int64  `json:"first"` // index of the first different leaf; -1 if there is none
	LeafA *entry `json:"leaf_a,omitzero"`
	LeafB *entry `json:"leaf_b,omitzero"`
	// Wrong names the logs, A or B, whose leaves do not give the root of their checkpoint.
	Wrong []string `json:"wrong_roots,omitzero"`
}

// entry is a leaf of one of the logs.
type entry = auditor.Leaf

func compareCommand(a *verb.App) *cobra.Command {
	var json bool
	c := &cobra.Command{
		Use:   "compare A [B]",
		Short: "Find the first leaf in which two logs differ (exit 2 if there is one)",
		Long: `Compare the leaves of two logs, each a folder or the URL of "audit serve". Without B, the
log of this data folder is compared with A. Auditors of one ledger have the same leaves,
whatever their keys are. So if two leaves differ, one of the auditors received or recorded
something else.

All leaves are read, and the root of each log is computed from them. A log whose checkpoint
names another root serves leaves that it did not sign (exit 2). Checkpoints determine the
compared range; their signatures are not verified.`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			args = append(args, "")
			var src [2]chain.Source
			var cps [2]chain.Checkpoint
			for i := range src {
				s, err := openSource(a, args[i])
				if err != nil {
					return err
				}
				defer s.close()
				b, err := s.ReadCheckpoint(cmd.Context())
				if err != nil {
					return err
				}
				if cps[i], err = chain.ParseCheckpoint(b); err != nil {
					return err
				}
				src[i] = s
			}
			rep := &comparison{SizeA: cps[0].Size, SizeB: cps[1].Size, Equal: min(cps[0].Size, cps[1].Size)}
			first, rooted, err := chain.FirstDifference(cmd.Context(), src, cps)
			if err != nil {
				return err
			}
			for i, ok := range rooted {
				if !ok {
					rep.Wrong = append(rep.Wrong, string(rune('A'+i)))
				}
			}
			if rep.First = first; first >= 0 {
				rep.Equal = first
				for i, into := range []**entry{&rep.LeafA, &rep.LeafB} {
					if *into, err = readLeaf(cmd.Context(), src[i], first, cps[i].Size); err != nil {
						return err
					}
				}
			}
			if json {
				if err := cli.JSON(cmd.OutOrStdout(), rep); err != nil {
					return err
				}
			} else {
				printComparison(cmd, rep)
			}
			if rep.First >= 0 || len(rep.Wrong) > 0 {
				return &cli.Exit{Code: cli.ExitNegative}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&json, "json", false, "print JSON")
	return c
}

func readLeaf(ctx context.Context, src chain.Source, i, size int64) (*entry, error) {
	n := i / chain.TileWidth
	b, err := src.ReadEntryBundle(ctx, n, int(min(size-n*chain.TileWidth, chain.TileWidth)))
	if err != nil {
		return nil, err
	}
	leaves, err := chain.SplitBundle(b)
	if err != nil {
		return nil, err
	}
	if int(i%chain.TileWidth) >= len(leaves) {
		return nil, fmt.Errorf("the log's entry bundle for leaf %d has only %d leaves, without this one", i, len(leaves))
	}
	leaf, err := chain.DecodeLeaf(leaves[i%chain.TileWidth])
	if err != nil {
		return nil, err
	}
	out := auditor.NewLeaf(&leaf)
	return &out, nil
}

func printComparison(cmd *cobra.Command, r *comparison) {
	w := cmd.OutOrStdout()
	for _, name := range r.Wrong {
		fmt.Fprintf(w, "WRONG   the leaves of %s give another root than its checkpoint\n", name)
	}
	if r.First < 0 {
		fmt.Fprintf(w, "EQUAL in all %d leaves that both logs have; A has %d leaves and B %d\n", r.Equal, r.SizeA, r.SizeB)
		return
	}
	fmt.Fprintf(w, "DIFFERENT from leaf %d on\n", r.First)
	for i, l := range []*entry{r.LeafA, r.LeafB} {
		fmt.Fprintf(w, "  %c  %s, ledger entry %s, %s, %s of %s, %d bytes, %s\n", 'A'+i, l.Kind, position.Text(l.Seq),
			l.Time.Format(time.RFC3339Nano), l.Type, l.Project, l.Length, l.Commitment)
	}
}
