package verb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/cli"
	"lazaret/internal/datafolder"
	"lazaret/internal/embedded"
	"lazaret/internal/ingest"
	"lazaret/internal/query"
	"lazaret/pkg/keys"
	"lazaret/pkg/policy"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// Activate returns a command that signs and activates a bundle: a trust file, a rule set or a policy, as do says. load
// returns the bundle for the command's arguments.
func (a *App) Activate(use, short, do string, load func(args []string) ([]byte, error)) *cobra.Command {
	var key string
	c := &cobra.Command{Use: use, Short: short, Args: cobra.MaximumNArgs(1),
		Long: short + `.

Exit codes: 0 in force in all partitions; 1 could not run; 2 refused, and nothing has changed;
3 in force in some partitions, or the result is not known: the output names the partitions and what to do.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := load(args)
			if err != nil {
				return cli.Invalid(err)
			}
			o, err := a.OpenOperator(key, false)
			if err != nil {
				return err
			}
			defer o.Nc.Close()
			return o.PutInForce(cmd, do, b)
		}}
	c.Flags().StringVar(&key, "key", "", "operator's key `FILE` (default the data folder's)")
	return c
}

// Operator signs and publishes commands.
type Operator struct {
	Nc         *nats.Conn
	signer     note.Signer
	Timeout    time.Duration
	rejections *nats.Subscription // ingest's rejections of anybody's commands
	published  map[uint64]int     // by the intake sequence of the published command: the partition that it is for
	refusals   map[int]string     // reasons for which partitions refused the published command
}

// OpenOperator connects with the operator's key and credential. A lasting connection reconnects after
// restarts of the server.
func (a *App) OpenOperator(key string, lasting bool) (*Operator, error) {
	a.Conn.Resolve()
	key = cmp.Or(key, datafolder.OperatorKey(a.Conn.Data))
	signer, err := keys.LoadSigner(key)
	if err != nil {
		return nil, err
	}
	var opts []nats.Option
	if lasting {
		opts = []nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(500 * time.Millisecond)}
	}
	nc, err := a.Conn.Connect("operator", opts...)
	if err != nil {
		return nil, err
	}
	return &Operator{Nc: nc, signer: signer, Timeout: a.Conn.Timeout}, nil
}

// Publish publishes a bundle and the signed command that activates it.
func (o *Operator) Publish(ctx context.Context, do string, bundle []byte) error {
	if o.rejections == nil {
		sub, err := o.Nc.SubscribeSync("lz.live." + streams.SystemProject + ".rejected")
		if err != nil {
			return err
		}
		o.rejections = sub
	}
	o.readRejections() // discard earlier ones
	o.refusals = map[int]string{}
	var err error
	o.published, err = embedded.PublishActivation(ctx, o.Nc, o.signer, do, bundle)
	return err
}

// PutInForce publishes a bundle and waits until it is active in every partition. It publishes nothing if the bundle is
// active everywhere already, or if a partition would refuse it. If the wait is interrupted, the activation may still
// succeed.
func (o *Operator) PutInForce(cmd *cobra.Command, do string, bundle []byte) error {
	already, err := o.preflight(cmd.Context(), do, bundle, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if already {
		fmt.Fprintf(cmd.OutOrStdout(), "in force: %s (already; nothing was signed, and the key was not used)\n",
			streams.Digest(bundle))
		return nil
	}
	if err := o.Publish(cmd.Context(), do, bundle); err != nil {
		return err
	}
	if err := o.Await(cmd.Context(), do, bundle, cmd.ErrOrStderr()); err != nil {
		return err
	}
	fmt.Fprintln(cmd.OutOrStdout(), "in force:", streams.Digest(bundle))
	return nil
}

const (
	// silent is how long to wait for a partition that does not reply.
	silent = 30 * time.Second
	// askTime is how long one question may take, so that the progress can be printed meanwhile.
	askTime = 2 * time.Second
)

// active asks a partition for the digests of what is in force there, and whether it would refuse a policy that requires
// the groups.
func (o *Operator) active(ctx context.Context, p int, groups []string) (now ingest.ActiveAnswer, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	err = query.Ask(ctx, o.Nc, ingest.AskActive, p, ingest.ActiveRequest{Groups: groups}, &now)
	return now, err
}

// preflight reports whether a bundle is active in every partition already. It returns an error if a partition would
// refuse a policy: if only some partitions refused it, different policies would be in force. Every other fault of a
// bundle makes all partitions refuse it.
func (o *Operator) preflight(ctx context.Context, do string, bundle []byte, w io.Writer) (already bool, err error) {
	var groups []string
	if do == streams.DoActivatePolicy {
		next, err := policy.Compile("the policy", bundle)
		if err != nil {
			return false, &cli.Exit{Code: cli.ExitNegative, Text: err.Error()}
		}
		for _, g := range next.Groups {
			groups = append(groups, g.Name)
		}
	}
	digest := streams.Digest(bundle)
	already = true
	added, answered := false, 0
	var failed error
	said, heard := time.Now(), time.Now()
	for p := 0; p < streams.Partitions; {
		now, err := o.active(ctx, p, groups)
		switch {
		case err == nil && now.Late != "":
			return false, cli.Negative("refused: %s: %s; nothing was published, and the policy in force stays in force "+
				"in all partitions", streams.CodeBehind, text.InertLine(now.Late, 600))
		case err == nil:
			p, heard, answered = p+1, time.Now(), answered+1
			already = already && now.Digest(do) == digest
			added = added || now.Added
			continue
		case ctx.Err() != nil:
			return false, ctx.Err()
		case do != streams.DoActivatePolicy:
			return false, nil // Await says what does not answer
		case errors.Is(err, query.ErrNobody) && answered > 0, time.Since(heard) > silent:
			p, failed, already = p+1, fmt.Errorf("partition %d: %w", p, err), false
			continue
		case time.Since(said) > askTime:
			said = time.Now()
			fmt.Fprintf(w, "in force in 0 of %d partitions; not published yet, because ingest has not answered whether it "+
				"would refuse the policy\n", streams.Partitions)
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
	if failed != nil && (added || answered == 0) {
		return false, &cli.Exit{Code: cli.ExitIncomplete, Text: fmt.Sprintf("not published: ingest does not answer for "+
			"every partition (%v), and it could refuse the policy there: start ingest, and activate the policy again",
			failed)}
	}
	return already, nil
}

// Await waits until every partition has decided on the published bundle, without a time limit, and writes the progress
// to w. It returns an error if the bundle is not active in every partition.
func (o *Operator) Await(ctx context.Context, do string, bundle []byte, w io.Writer) error {
	out := outcome{do: do, digest: streams.Digest(bundle)}
	said, heard := time.Now(), time.Now()
	for p := 0; p < streams.Partitions; {
		now, err := o.active(ctx, p, nil)
		if err == nil {
			heard = time.Now()
		}
		o.readRejections()
		why, refused := o.refusals[p]
		switch {
		case now.Digest(do) == out.digest:
			out.in, p = append(out.in, strconv.Itoa(p)), p+1
			continue
		case refused:
			out.refused, p, out.why = append(out.refused, strconv.Itoa(p)), p+1, cmp.Or(out.why, why)
			continue
		case ctx.Err() != nil:
			out.undecided, p = append(out.undecided, strconv.Itoa(p)), p+1
			continue
		case time.Since(heard) > silent:
			out.unanswered, p, out.failed = append(out.unanswered, strconv.Itoa(p)), p+1, err
			continue
		case time.Since(said) > askTime:
			said = time.Now()
			fmt.Fprintf(w, "in force in %d of %d partitions; in the others, ingest still works on earlier messages\n",
				len(out.in),
				streams.Partitions)
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
	return out.err()
}

// readRejections reads the rejections that have arrived, and keeps those of the published command.
func (o *Operator) readRejections() {
	for {
		m, err := o.rejections.NextMsg(time.Millisecond)
		if err != nil {
			return
		}
		var r streams.RejectedEntry
		if streams.Unmarshal(m.Data, &r) != nil {
			continue
		}
		if p, ok := o.published[r.Intake]; ok {
			o.refusals[p] = fmt.Sprintf("%s: %s", r.Code, text.InertLine(r.Reason, 600))
		}
	}
}

// outcome lists the partitions by their decision on a command.
type outcome struct {
	do, digest  string
	in, refused []string
	undecided   []string // when the wait was interrupted
	unanswered  []string
	why         string // reason of the first refusal
	failed      error  // of the last question without an answer
}

// err returns nil if the bundle is active in every partition.
func (o *outcome) err() error {
	switch n := streams.Partitions; {
	case len(o.in) == n:
		return nil
	case len(o.refused) == n:
		return &cli.Exit{Code: cli.ExitNegative, Text: "refused: " + o.why}
	case len(o.refused) == 0:
		return &cli.Exit{Code: cli.ExitIncomplete, Text: fmt.Sprintf("published, and in force in %d of %d partitions",
			len(o.in), n) + o.rest() + "\ningest activates it in the others after the messages that came before it: " +
			"lazaret doctor shows what is in force"}
	case len(o.in) == 0:
		return &cli.Exit{Code: cli.ExitIncomplete, Text: fmt.Sprintf("refused by %d of %d partitions: %s", len(o.refused), n,
			o.why) + o.rest() + "\nlazaret doctor shows what is in force"}
	}
	again := map[string]string{streams.DoActivateRules: "rules activate DIR",
		streams.DoActivatePolicy: "policy activate FILE", streams.DoActivateTrust: "key activate FILE"}[o.do]
	return &cli.Exit{Code: cli.ExitIncomplete, Text: fmt.Sprintf("refused in part: partitions %s have %s in force, and "+
		"partitions %s refused it and keep what they had: %s%s\nput one of the two in force everywhere, the new one "+
		"again or the old one: lazaret %s", strings.Join(o.in, ", "), o.digest, strings.Join(o.refused, ", "), o.why,
		o.rest(), again)}
}

// rest says which partitions have not decided, one line for each reason.
func (o *outcome) rest() (said string) {
	if len(o.unanswered) > 0 {
		said += fmt.Sprintf("\npartitions %s did not answer (%v)", strings.Join(o.unanswered, ", "), o.failed)
	}
	if len(o.undecided) > 0 {
		said += fmt.Sprintf("\npartitions %s have not decided yet", strings.Join(o.undecided, ", "))
	}
	return said
}
