"""Reflection on tasks that have a right answer: the public names (docs/embedding.md)."""

from reflector.project import DatasetRefused as DatasetRefused
from reflector.reflection.truth.asking import Prompt as Prompt
from reflector.reflection.truth.asking import ReflectorPromptBuilder as ReflectorPromptBuilder
from reflector.reflection.truth.models import Bullet as Bullet
from reflector.reflection.truth.models import BulletEvaluation as BulletEvaluation
from reflector.reflection.truth.models import CurationResult as CurationResult
from reflector.reflection.truth.models import DeltaContextItem as DeltaContextItem
from reflector.reflection.truth.models import Insight as Insight
from reflector.reflection.truth.models import Playbook as Playbook
from reflector.reflection.truth.models import PlaybookMetadata as PlaybookMetadata
from reflector.reflection.truth.models import ReflectionResult as ReflectionResult
from reflector.reflection.truth.models import Trajectory as Trajectory
from reflector.reflection.truth.running import LedgerPlaybooks as LedgerPlaybooks
from reflector.reflection.truth.running import ReflectorAgent as ReflectorAgent
from reflector.reflection.truth.running import llm_client as llm_client
