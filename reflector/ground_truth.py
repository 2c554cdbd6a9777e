"""Reflection on tasks that have a right answer: the public names (docs/embedding.md)."""

from reflector.embed.ground_truth import LedgerPlaybooks as LedgerPlaybooks
from reflector.embed.ground_truth import ReflectorAgent as ReflectorAgent
from reflector.embed.ground_truth import llm_client as llm_client
from reflector.judges.truth.models import Bullet as Bullet
from reflector.judges.truth.models import BulletEvaluation as BulletEvaluation
from reflector.judges.truth.models import CurationResult as CurationResult
from reflector.judges.truth.models import DeltaContextItem as DeltaContextItem
from reflector.judges.truth.models import Insight as Insight
from reflector.judges.truth.models import Playbook as Playbook
from reflector.judges.truth.models import PlaybookMetadata as PlaybookMetadata
from reflector.judges.truth.models import ReflectionResult as ReflectionResult
from reflector.judges.truth.models import Trajectory as Trajectory
from reflector.judges.truth.questions import Prompt as Prompt
from reflector.judges.truth.questions import ReflectorPromptBuilder as ReflectorPromptBuilder
from reflector.project import DatasetRefused as DatasetRefused
