package verb

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"lazaret/pkg/approval"
)

// SignatureLife adds the flag --expires of commands that sign a statement about a hold or a belief. The pipeline
// refuses a statement that is valid for too long and raises an alert, so the flag refuses it before anything is signed.
func SignatureLife(f *pflag.FlagSet, life *time.Duration) {
	*life = 10 * time.Minute
	f.Var((*signatureLife)(life), "expires", "how long the signature is valid, at most 24h")
}

type signatureLife time.Duration

func (*signatureLife) Type() string { return "duration" }

func (l *signatureLife) String() string { return time.Duration(*l).String() }

func (l *signatureLife) Set(s string) error {
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return err
	case d <= 0 || d > approval.MaxLife:
		return fmt.Errorf("a signature is valid for more than 0 and at most %v", approval.MaxLife)
	}
	*l = signatureLife(d)
	return nil
}
