package steptest

// A rule is a rule of the contract, with the text that reports a violation.
type rule struct{ says, advice string }

var (
	ruleRuns = rule{"the step fails or hangs although nothing disturbs it",
		"make Setup and Config such that the step succeeds"}
	ruleSame = rule{"two undisturbed runs differ, so no run can be compared with another",
		"have Setup make the same world each time, or take what differs out by Case.Outputs and Case.Content"}
	ruleReturns = rule{"the step went on after its context had ended",
		"look at ctx.Err() before each block and each request, and give ctx to all that waits"}
	ruleLooks = rule{"the step works in pieces, but never looks at its context",
		"look at ctx.Err() before each piece and return context.Cause(ctx) when ctx has ended"}
	ruleCause = rule{"the error of the interrupted attempt does not tell the cause",
		"return context.Cause(ctx) when ctx has ended, or wrap it by %w"}
	rulePermanent = rule{"the step calls a passing failure permanent, which ends all retries",
		"use courier.Permanent only for what another attempt can't cure"}
	rulePanics = rule{"the step panics",
		"check each error before using what came with it"}
	ruleAgain = rule{"the next attempt fails",
		"Execute must cope with all that an earlier attempt may have done; if that finished, it must notice, or overwrite with an equivalent result"}
	ruleOutcome = rule{"the outcome differs from that of an undisturbed run",
		"Execute must be safe to repeat: write, move and remove files by the methods of job.Files(), and note what else can't be had twice in job.Files().StepDir() before doing it"}
	ruleJobAgain = rule{"a new attempt of the job fails or has another outcome than an undisturbed run",
		"take files away by job.Files().Move and Remove, which know what they have done in the attempt before; in a new attempt of the execution complete with the same outputs"}
	ruleOutputs = rule{"the outputs differ from those of an undisturbed run",
		"return the same whether this attempt or an earlier one did the work, for the steps that follow build on it"}
	ruleReports = rule{"the reports of files are not those of an undisturbed run",
		"call what makes, moves or removes a file even if an earlier attempt has done it, for that attempt's reports are lost; report what is written by other means by job.Files().Wrote"}
	ruleTrue = rule{"a report of a file is not true",
		"call job.Files().Wrote when the file has its final name and size; a resume refuses to go on without a reported file"}
	ruleHalf = rule{"a final name shows what is neither its old content nor the complete new one",
		"write under another name and rename: job.Files().Create and Commit do that; or exempt the name by Case.Partial"}
	ruleLeft = rule{"something of an earlier attempt is left over",
		"defer Close of what job.Files().Create returns, and remove in Cleanup what a killed attempt leaves: job.Files().RemoveSideFiles(target), and what the step names itself; " +
			"each attempt has a job.Files().Dir() of its own, so below that it is what earlier ones left, in path.Dir(job.Files().Dir()) by their numbers"}
	ruleTidy = rule{"the attempt returned and left side files",
		"defer Close of what job.Files().Create returns"}
	ruleCleanup = rule{"Cleanup fails",
		"Cleanup must cope with any state, also with nothing to clean up"}
	ruleResult = rule{"Cleanup changes the result of an attempt that had completed",
		"remove in Cleanup only what is unfinished: the reply of a completed attempt may be lost, and its result is not to be removed"}
	ruleRollback = rule{"Rollback fails",
		"Rollback must cope with any state, also with nothing to undo"}
	ruleResume = rule{"after Rollback the next attempt fails or does not reach the outcome of an undisturbed run",
		"Rollback must keep what a resume needs unless job.Cancelled()"}
	ruleCancel = rule{"Rollback of a cancelled execution left something of the step's",
		"remove in Rollback, which is Cleanup where there is none, all that is not final"}
	ruleGoroutine = rule{"goroutines are left",
		"wait for every goroutine before Execute returns, or end it in the Close of what courier.Keep holds"}
	ruleFenced = rule{"an attempt that had been cut off changed what the next attempt made",
		"touch files only through job.Files(), which are closed under such an attempt, and connections only through courier.Keep"}
)
