package signals

import (
	"slices"

	"lazaret/pkg/text/approval"
)

func init() {
	register(
		0,
		Signal{"content.claims_approval", "a view of the content says that an approval was given, for more than one act or " +
			"for an act such as a payment, or that none is needed", "", "", "", "0"},
		(*State).claimsApproval,
	)
}

func (s *State) claimsApproval() bool {
	return slices.ContainsFunc(s.In.Content.Views, approval.Claimed)
}
