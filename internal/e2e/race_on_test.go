//go:build race

package e2e

// raced reports whether the tests run with the race detector. If so, the programs that they start are built with it
// too.
const raced = true

// racedTests are the tests that a short run with the race detector runs if there is no flag -run. Together they use
// every stage.
const racedTests = "TestAnApprovalReleases|TestHoldsAndResolutionsSurvive|TestTheLogConvicts|TestAwaitHears|" +
	"TestAnActionRightAfter|TestAStandby|TestAfterAPoisonedRead|TestNothingThatAGroupWrites|TestAPoisonedSource|" +
	"TestAMemoryContains|TestAForgottenProject"
