package rules

// The sizes under which costs are estimated. An input within them is evaluated
// without counting, because the estimate is its proof; a larger one is counted
// and ends at CostLimit.
const (
	boundText  = 64 << 10 // bytes of a text
	boundValue = 1 << 10  // bytes of any other string
	boundViews = 16       // views of a content
	boundList  = 64       // elements of any other list
)

// bounded reports whether an input is within the sizes of the estimate.
func (in *Input) bounded() bool {
	if len(in.Content.Text) > boundText || len(in.Action.Text) > boundText || len(in.Content.Views) > boundViews ||
		len(in.Content.Carriers) > boundList || len(in.Action.Beliefs) > boundList || len(in.Decision.Beliefs) > boundList ||
		len(in.Recall.Items) > boundList || len(in.Tools.Items) > boundList {
		return false
	}
	for _, v := range in.Content.Views {
		if len(v) > boundText {
			return false
		}
	}
	for _, bs := range [][]*Belief{in.Action.Beliefs, in.Decision.Beliefs} {
		for _, b := range bs {
			if max(len(b.ID), len(b.Key), len(b.Source), len(b.Observation)) > boundText {
				return false
			}
		}
	}
	for _, it := range in.Recall.Items {
		if max(len(it.ID), len(it.Key), len(it.Source)) > boundText || len(it.Kinds) > boundList {
			return false
		}
	}
	for _, it := range in.Tools.Items {
		if max(len(it.Name), len(it.Description), len(it.Shadows)) > boundText {
			return false
		}
	}
	for _, s := range []string{in.Event.Source, in.Event.Tool, in.Memory.Key, in.Decision.Summary, in.Recall.Query} {
		if len(s) > boundValue {
			return false
		}
	}
	return true
}
